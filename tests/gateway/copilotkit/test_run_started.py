"""The input in the first event of a run, and nothing else changed."""

import json
from typing import Any

import pytest

from threadkeep.gateway.copilotkit.run_started import new_messages, with_input
from threadkeep.gateway.inputs import parse_body

USER = {"id": "u1", "role": "user", "content": "hi"}
ANSWER = {"id": "a1", "role": "assistant", "content": "Yes"}
RESULT = {"id": "t1", "role": "tool", "toolCallId": "c1", "content": "18"}


def body(*messages: Any, rest: str = "") -> Any:
    text = f'{{"threadId":"t","runId":"r","messages":{json.dumps(messages)}{rest}}}'
    return parse_body(text.encode())


def test_a_run_that_starts_says_what_it_was_given_in_the_text_in_which_it_came() -> None:
    event = b'{"type": "RUN_STARTED", "threadId":"t","runId":"r"} \n'
    given = body(USER, rest=',"state":{"n": 1.50},"context":null,"tools":[{"name":"f"}]')
    assert with_input(event, given) == (
        b'{"type": "RUN_STARTED", "threadId":"t","runId":"r","input":{"state":{"n": 1.50},"tools":[{"name":"f"}],'
        b'"context":[],"forwardedProps":{},"threadId":"t","runId":"r",'
        b'"messages":[{"id":"u1","role":"user","content":"hi"}]}}'
    )


@pytest.mark.parametrize(
    "event",
    [
        b'{"type":"RUN_STARTED","input":{"threadId":"x"}}',
        b'{"type":"RUN_STARTED","input":null}',
        b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"RUN_STARTED"}',
        b'{"type":"RUN_FINISHED","threadId":"t","runId":"r"}',
        b'["RUN_STARTED"]',
    ],
)
def test_any_other_event_passes_as_it_came(event: bytes) -> None:
    assert with_input(event, body(USER)) == event


def test_messages_that_were_said_before_are_left_out() -> None:
    again = {**USER, "id": "u2"}
    assert new_messages([USER]) == [USER]
    assert new_messages([USER, ANSWER, again]) == [again]
    assert new_messages([USER, ANSWER, RESULT]) == [RESULT]
    assert new_messages([USER, ANSWER]) == []
    assert new_messages([]) == []

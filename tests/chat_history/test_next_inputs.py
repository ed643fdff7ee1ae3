"""After each field case a model is asked once more: it accepts what it is given, and it is given all that was said."""

from typing import Any

import pytest

from tests.chat_history.chat_api_rules import complaints
from tests.chat_history.next_inputs import QUESTION, expected, outline
from tests.chat_history.test_cases import CASES, FAULTS, House, play

NAMES = [name for name in CASES if name not in FAULTS]


async def next_input(case: dict[str, Any]) -> list[dict[str, Any]]:
    """What the agent sees of the run after a case, by a client that sends only what is new."""
    house = House()
    await play(case, house)
    thread_id = case["input"]["run_input"]["threadId"]
    await (await house.begin({"threadId": thread_id, "runId": "after", "messages": [QUESTION]}, [])).wait()
    return house.agents[-1].seen[0]


@pytest.mark.parametrize("name", NAMES)
async def test_the_model_after_a_field_case_sees_what_was_said(name: str, monkeypatch: Any) -> None:
    # The killed process of a case has written all it had.
    monkeypatch.setattr("threadkeep.chat_history.ag_ui.policy.FlushPolicy.wait", lambda self, **_: 0.0)
    history = await next_input(CASES[name])
    assert complaints(history) == []
    lines = expected(name, CASES[name])
    if name == "038-disconnect-then-server-restart":
        # Our reading: a process that died interrupted its runs.
        lines = [tuple(str(each).replace("failed", "was interrupted") for each in line) for line in lines]
        assert [tuple(str(each) for each in line) for line in outline(history)] == lines
    elif name == "040-two-runs-interleaved-on-one-thread":
        # The order of two turns that happen at once is open.
        assert sorted(outline(history)) == sorted(lines)
    else:
        assert outline(history) == lines


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "next_model_input" in case["expect"]])
async def test_a_field_case_leads_to_the_input_that_it_names(name: str) -> None:
    house = House()
    await play(CASES[name], house)
    seen = house.agents[-1].seen[0]
    for message, wanted in zip(seen, CASES[name]["expect"]["next_model_input"], strict=True):
        assert message["role"] == wanted["role"]
        if "tool_calls" in wanted:
            assert [call["id"] for call in message["toolCalls"]] == wanted["tool_calls"]
        elif wanted["role"] == "tool":
            assert message["toolCallId"] == wanted["tool_call_id"]
            assert message["content"] == "slow was interrupted before it gave a result"
        else:
            assert message["content"] == wanted["content"]


SECOND_INPUTS = {
    "041-client-resends-full-history": [("user", "hi"), ("assistant", "Hello"), ("user", "and now?")],
    "043-same-text-sent-twice-on-purpose": [("user", "yes"), ("assistant", "First"), ("user", "yes")],
    "046-message-id-reused-in-a-later-run": [("user", "hi"), ("assistant", "First"), ("user", "again")],
    "049-frontend-tool-two-runs": [("user", "hi"), ("assistant", None, "c1"), ("tool", "51.4,-1.3", "c1")],
    "050-frontend-result-delta-payload": [("user", "hi"), ("assistant", None, "c1"), ("tool", "blue", "c1")],
    "052-frontend-result-never-comes": [
        ("user", "hi"),
        ("assistant", None, "c1"),
        ("tool", "map was interrupted before it gave a result", "c1"),
        ("user", "next"),
    ],
    "053-two-frontend-calls-one-answered": [
        ("user", "hi"),
        ("assistant", None, "c1", "c2"),
        ("tool", "ra", "c1"),
        ("tool", "b has given no result yet", "c2"),
    ],
    "055-tool-message-with-error": [("user", "hi"), ("assistant", None, "c1"), ("tool", "denied", "c1")],
    "058-interrupt-cancelled-with-payload": [
        ("user", "hi"),
        ("assistant", None, "c1"),
        ("tool", "pay was interrupted before it gave a result", "c1"),
    ],
    "091-edit-and-resend": [("user", "hi, in French")],
    "092-regenerate-same-user-message": [("user", "hi")],
    "094-replay-of-thread-with-failed-run": [("user", "hi"), ("assistant", "x"), ("user", "again")],
}


@pytest.mark.parametrize("name", SECOND_INPUTS)
async def test_the_second_run_of_a_field_case_sees_what_the_user_does(name: str) -> None:
    house = House()
    await play(CASES[name], house)
    seen = house.agents[-1].seen[0]
    assert complaints(seen) == []
    assert outline(seen) == SECOND_INPUTS[name]


async def test_the_payload_of_a_resume_reaches_the_agent_unchanged() -> None:
    case = CASES["058-interrupt-cancelled-with-payload"]
    house = House()
    await play(case, house)
    assert house.agents[-1].inputs[0].resume == case["input"]["then"]["second_run"]["run_input"]["resume"]

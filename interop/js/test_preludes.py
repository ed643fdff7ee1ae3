"""The published clients take a prelude and the rest of a stream for the whole stream, wherever it is joined.

The streams are those of the field cases, and some of both lines' odder events; each is joined at each of its events.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from interop.js.conftest import VERSIONS
from interop.js.page import FOLDER, Json
from tests.chat_history.cases import load_cases
from tests.chat_history.cuts import events_of
from tests.chat_history.test_prelude import ASKED, TERMINALS, TWO_SPEAKERS, joined_at

MADE_UP_ID = re.compile(r"thinking-\d+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# The older line shows no THINKING_* events; a prelude shows what was recorded of them.
SHOWN_TO_OLDER_CLIENTS = {"028-legacy-thinking-events"}
# A prelude writes the parts of the older line as those of the newer one, and fields of a wrong type as right ones.
WRITTEN_ANEW = {"062-legacy-binary-content", "100-verbatim-forwarding-of-odd-wire"}
LONGEST = 60


def streams() -> Iterator[tuple[str, list[Json], Any, list[Json]]]:
    """Each stream with the messages and the state that its client has before it."""
    for name, case in load_cases().items():
        events = list(map(dict, events_of(case)))
        if len(events) > LONGEST:
            events = [*events[: LONGEST // 2], *events[-LONGEST // 2 :]]
        run_input = case["input"]["run_input"]
        yield name, run_input["messages"], run_input.get("state") or {}, events
    yield "two speakers", [ASKED], {}, list(map(dict, TWO_SPEAKERS))


def comparable(shown: Json) -> Json:
    """What a client shows, without the ids that it makes up."""
    messages = [{**each, "id": "-"} if MADE_UP_ID.fullmatch(each["id"]) else each for each in shown["messages"]]
    return {"messages": messages, "state": shown["state"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_whoever_joins_a_stream_at_any_event_shows_what_the_others_show(version: str) -> None:
    asked: list[tuple[str, int | None]] = []
    lines: list[str] = []
    speaks_1_x = version.startswith("1.")
    for name, messages, state, events in streams():
        end = next((at for at, event in enumerate(events) if event["type"] in TERMINALS), len(events) - 1)
        asked.append((name, None))
        lines.append(json.dumps({"messages": messages, "state": state, "events": events}))
        for count in range(end + 1):
            joined = joined_at(events, count, messages, state, speaks_1_x=speaks_1_x)
            asked.append((name, count))
            lines.append(json.dumps({"messages": [], "state": {}, "events": joined}))
    command = ["node", "preludes.mjs", f"ag-ui-{version}"]
    done = subprocess.run(command, cwd=FOLDER, input="\n".join(lines), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(asked)

    whole: Json = {}
    joins = refused = 0
    for (name, count), answer in zip(asked, answers, strict=True):
        if count is None:
            whole = answer
            refused += "refused" in answer
        elif "refused" not in whole:
            joins += 1
            assert "refused" not in answer, (name, count)
            is_told_otherwise = name in WRITTEN_ANEW or (name in SHOWN_TO_OLDER_CLIENTS and not speaks_1_x)
            assert is_told_otherwise or comparable(answer) == comparable(whole), (name, count)
    # Streams that break the protocol's rules are refused from the beginning; most do not.
    assert refused <= 5
    assert joins > 400

"""Every state of every field case: its events up to each place, and what must hold of a record that ends there."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.chat_history.cases import load_cases

Event = Mapping[str, Any]
WAYS = {"cancel": "interrupted", "crash": "errored", "eof": "errored", "disconnect": None}
"""How a run is cut short, and the status of what is open then; a reader that leaves cuts nothing."""
_TERMINALS = ("RUN_FINISHED", "RUN_ERROR")


def events_of(case: Mapping[str, Any]) -> list[Event]:
    """The events of a case's first run, with what is written short written out."""
    events: list[Event] = []
    for event in case["input"]["events"]:
        repeated, count = event.get("$repeat_event", (event, 1))
        events += [repeated] * count
    return events


def distinct_cuts() -> dict[str, tuple[dict[str, Any], list[tuple[int, list[Event]]]]]:
    """Each case with its input, and those of its cuts that no case before it has: many begin in the same way."""
    seen: set[str] = set()
    found = {}
    for name, case in load_cases().items():
        events, run_input = events_of(case), case["input"]["run_input"]
        if len(events) > 60:
            # Thousands of deltas are the same state over and over.
            events = [*events[:30], *events[-30:]]
        cuts = []
        for count in range(len(events) + 1):
            key = json.dumps([events[:count], run_input.get("tools"), len(run_input["messages"])])
            if key not in seen:
                seen.add(key)
                cuts.append((count, events))
        if cuts:
            found[name] = (run_input, cuts)
    return found


def terminal_in(events: Sequence[Event]) -> str | None:
    """The type of the first terminal event."""
    return next((event["type"] for event in events if event.get("type") in _TERMINALS), None)


def assert_ended(records: Iterable[tuple[str, str, bool, bool]], events: Sequence[Event], way: str) -> None:
    """No record is active but the calls that a client or a person is to answer, and those only of a run that finished.

    `records` are (what, status, in progress, awaiting).
    """
    terminal, status = terminal_in(events), WAYS[way]
    for what, found, in_progress, awaiting in records:
        if awaiting and terminal == "RUN_FINISHED":
            assert (what, found, in_progress) == ("call", "active", True)
            continue
        assert not in_progress, what
        if terminal is None and status is not None:
            assert found in ("complete", status), what
        else:
            assert found in ("complete", "errored", "interrupted"), what

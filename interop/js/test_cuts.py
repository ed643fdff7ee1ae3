"""The published AG-UI client loses its connection in mid-stream, and ends with the messages of one that did not."""

import threading
from collections.abc import Sequence

import pytest

from interop.js import scripts
from interop.js.conftest import Open, Served
from interop.js.page import Json, Page
from interop.js.relay import Relay

QUESTION = {"id": "u1", "role": "user", "content": "How warm is it?"}
MIDDLES = ["REASONING_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS"]
"""What was seen last before each gate of an answer."""


def never_cut(page: Page, served: Served, thread: str) -> tuple[Json, list[Json]]:
    """What a page shows, and has seen, of the same answer in another thread."""
    served.upstream.play(f"{thread} whole", scripts.answer("a"))
    shown: Json = page.do("run", agent="whole", thread=f"{thread} whole", run="whole", message=QUESTION)
    return shown, comparable(page.seen["whole"])


def comparable(seen: Sequence[Json]) -> list[Json]:
    """Events without what differs from run to run."""
    return [{name: value for name, value in event.items() if name not in ("threadId", "runId")} for event in seen]


@pytest.mark.parametrize("middle", range(3), ids=["thought", "text", "call"])
def test_a_run_that_is_cut_in_the_middle_goes_on_behind_the_last_event(
    open_page: Open, served: Served, network: Relay, thread: str, middle: int
) -> None:
    page, gates = open_page(), [threading.Event() for _ in MIDDLES]
    for gate in gates[:middle]:
        gate.set()
    served.upstream.play(thread, scripts.answer("a", *gates))
    running = page.start("run", agent="a", thread=thread, run="r1", message=QUESTION)
    page.wait_for("a", MIDDLES[middle])
    network.cut()
    for gate in gates:
        gate.set()
    shown = running.result()
    assert network.cuts > 0
    assert (shown, comparable(page.seen["a"])) == never_cut(page, served, thread)


def test_a_run_that_is_cut_again_and_again_loses_nothing_and_repeats_nothing(
    open_page: Open, served: Served, network: Relay, thread: str
) -> None:
    page, gates = open_page(), [threading.Event() for _ in MIDDLES]
    served.upstream.play(thread, scripts.answer("a", *gates))
    running = page.start("run", agent="a", thread=thread, run="r1", message=QUESTION)
    for kind, gate in zip(MIDDLES, gates, strict=True):
        page.wait_for("a", kind)
        network.cut()
        gate.set()
    shown = running.result()
    assert network.cuts >= len(gates)
    assert (shown, comparable(page.seen["a"])) == never_cut(page, served, thread)


def test_a_run_that_ended_while_the_network_was_away_is_caught_up_with(
    open_page: Open, served: Served, network: Relay, thread: str
) -> None:
    page, gate = open_page(), threading.Event()
    served.upstream.play(thread, scripts.answer("a", gate))
    running = page.start("run", agent="a", thread=thread, run="r1", message=QUESTION)
    page.wait_for("a", "REASONING_MESSAGE_CONTENT")
    network.cut(shut=True)
    gate.set()
    with served.http as http:
        # The events route is the wait for the end: it is read on a way that was not cut.
        assert "RUN_FINISHED" in http.get(f"/threads/{thread}/runs/r1/events/").text
    network.reopen()
    shown = running.result()
    assert (shown, comparable(page.seen["a"])) == never_cut(page, served, thread)


def test_a_page_that_goes_away_stops_nothing(open_page: Open, served: Served, thread: str) -> None:
    page, gate = open_page(), threading.Event()
    served.upstream.play(thread, scripts.answer("a", gate))
    running = page.start("run", agent="a", thread=thread, run="r1", message=QUESTION)
    page.wait_for("a", "REASONING_MESSAGE_CONTENT")
    page.do("abort", agent="a")
    running.result()
    gate.set()
    with served.http as http:
        events = http.get(f"/threads/{thread}/runs/r1/events/").text
        messages = http.get(f"/threads/{thread}/messages/").json()["items"]
    assert events.count("\ndata: ") == len(scripts.answer("a"))
    assert [message["content"] for message in messages] == ["How warm is it?", "I look it up", "It is 18 degrees"]

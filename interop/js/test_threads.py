"""The published AG-UI client opens threads: the stored ones, one that streams, one that waits for an answer."""

import threading

import pytest

from interop.js import scripts
from interop.js.conftest import Open, Served
from interop.js.page import Json, PageError
from interop.js.relay import Relay

IMAGE = {
    "id": "u1",
    "role": "user",
    "content": [
        {"type": "text", "text": "How warm is it here?"},
        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
    ],
}
AGAIN = {"id": "u2", "role": "user", "content": "And now?"}
ASKED = {"id": "i1", "reason": "confirmation", "message": "Send it?"}
FIRST_OF_KIND = {
    "thought": "REASONING_MESSAGE_CONTENT",
    "text": "TEXT_MESSAGE_CONTENT",
    "call": "TOOL_CALL_ARGS",
}


def comparable(shown: Json) -> list[Json]:
    """The messages without what is empty, which a client leaves out or not."""
    return [{name: value for name, value in message.items() if value} for message in shown["messages"]]


def test_a_new_page_shows_what_the_one_before_has_seen(open_page: Open, served: Served, thread: str) -> None:
    served.upstream.play(thread, scripts.answer("a"), scripts.answer("b"))
    first = open_page()
    first.do("run", agent="a", thread=thread, run="r1", message=IMAGE)
    shown = first.do("run", agent="a", thread=thread, run="r2", message=AGAIN)
    assert len(shown["messages"]) == 10

    opened = open_page().do("connect", agent="a", thread=thread)
    assert comparable(opened) == comparable(shown)
    assert opened["messages"][0]["content"] == IMAGE["content"]
    assert opened["state"] == shown["state"] == {"city": "Paris"}


@pytest.mark.parametrize("middle", FIRST_OF_KIND)
def test_a_thread_that_is_opened_in_the_middle_ends_like_one_that_was_never_left(
    open_page: Open, served: Served, thread: str, middle: str
) -> None:
    first, gates = open_page(), {kind: threading.Event() for kind in FIRST_OF_KIND}
    for kind, gate in gates.items():
        if kind == middle:
            break
        gate.set()
    served.upstream.play(thread, scripts.answer("a", *gates.values()))
    running = first.start("run", agent="a", thread=thread, run="r1", message=IMAGE)
    first.wait_for("a", FIRST_OF_KIND[middle])

    second = open_page()
    opening = second.start("connect", agent="a", thread=thread)
    second.wait_for("a", "MESSAGES_SNAPSHOT")
    for gate in gates.values():
        gate.set()
    shown, opened = running.result(), opening.result()
    assert comparable(opened) == comparable(shown)
    assert opened["state"] == shown["state"]


def test_a_page_that_left_opens_its_thread_and_ends_alike(open_page: Open, served: Served, thread: str) -> None:
    page, gate = open_page(), threading.Event()
    served.upstream.play(thread, scripts.answer("a", gate))
    running = page.start("run", agent="left", thread=thread, run="r1", message=IMAGE)
    page.wait_for("left", "REASONING_MESSAGE_CONTENT")
    page.do("abort", agent="left")
    running.result()
    opening = page.start("connect", agent="back", thread=thread)
    page.wait_for("back", "MESSAGES_SNAPSHOT")
    gate.set()
    opened = opening.result()

    served.upstream.play(f"{thread} whole", scripts.answer("a"))
    whole = page.do("run", agent="whole", thread=f"{thread} whole", run="r1", message=IMAGE)
    assert comparable(opened) == comparable(whole)


def test_an_opened_thread_that_is_cut_goes_on_behind_the_last_event(
    open_page: Open, served: Served, network: Relay, thread: str
) -> None:
    first, gates = open_page(), [threading.Event() for _ in FIRST_OF_KIND]
    served.upstream.play(thread, scripts.answer("a", *gates))
    running = first.start("run", agent="a", thread=thread, run="r1", message=IMAGE)
    first.wait_for("a", "REASONING_MESSAGE_CONTENT")
    second = open_page()
    opening = second.start("connect", agent="a", thread=thread)
    second.wait_for("a", "MESSAGES_SNAPSHOT")
    gates[0].set()
    second.wait_for("a", "TEXT_MESSAGE_CONTENT")
    network.cut()
    for gate in gates:
        gate.set()
    shown, opened = running.result(), opening.result()
    assert network.cuts >= 2
    assert comparable(opened) == comparable(shown)


def test_a_question_is_shown_on_another_device_and_answered_there_once(
    open_page: Open, served: Served, thread: str
) -> None:
    asking = [scripts.started(), scripts.finished(outcome={"type": "interrupt", "interrupts": [ASKED]})]
    served.upstream.play(thread, asking, scripts.answer("b"))
    first, second = open_page(), open_page()
    shown = first.do("run", agent="a", thread=thread, run="r1", message=IMAGE)
    opened = second.do("connect", agent="a", thread=thread)
    assert [asked["id"] for asked in opened["interrupts"]] == [asked["id"] for asked in shown["interrupts"]] == ["i1"]

    answer = [{"interruptId": "i1", "status": "resolved", "payload": {"yes": True}}]
    answered = second.do("run", agent="a", thread=thread, run=f"{thread} 2", resume=answer)
    assert answered["messages"][-1]["content"] == "It is 18 degrees"
    assert answered["interrupts"] == []
    assert served.upstream.inputs[f"{thread} 2"]["resume"] == answer

    with pytest.raises(PageError, match="i1"):
        first.do("run", agent="a", thread=thread, run=f"{thread} 3", resume=answer)
    assert f"{thread} 3" not in served.upstream.inputs
    assert open_page().do("connect", agent="a", thread=thread)["interrupts"] == []


def test_a_thread_that_nobody_has_used_opens_empty(open_page: Open, thread: str) -> None:
    assert open_page().do("connect", agent="a", thread=thread)["messages"] == []

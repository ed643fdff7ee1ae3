"""The published AG-UI client runs an agent through the gateway: to its end, again, and until it is cancelled."""

import threading

import pytest

from interop.js import scripts
from interop.js.conftest import Open, Served
from interop.js.page import PageError

IMAGE = {
    "id": "u1",
    "role": "user",
    "content": [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
    ],
}
QUESTION = {"id": "u1", "role": "user", "content": "How warm is it?"}


def test_a_run_ends_with_the_messages_that_the_agent_made(open_page: Open, served: Served, thread: str) -> None:
    served.upstream.play(thread, scripts.answer("a"))
    shown = open_page().do("run", agent="a", thread=thread, run="r1", message=QUESTION)
    roles = [message["role"] for message in shown["messages"]]
    assert roles == ["user", "reasoning", "assistant", "tool", "assistant"]
    assert [message.get("content") for message in shown["messages"]] == [
        "How warm is it?",
        "Let me see",
        "I look it up",
        "18 degrees",
        "It is 18 degrees",
    ]
    assert shown["messages"][2]["toolCalls"][0]["function"] == {"name": "look_up", "arguments": '{"city": "Paris"}'}
    assert shown["state"] == {"city": "Paris"}


def test_a_second_run_sends_what_was_said_and_the_agent_gets_it_once(
    open_page: Open, served: Served, thread: str
) -> None:
    page = open_page()
    served.upstream.play(thread, scripts.answer("a"), scripts.answer("b"))
    page.do("run", agent="a", thread=thread, run=f"{thread} 1", message=IMAGE)
    shown = page.do("run", agent="a", thread=thread, run=f"{thread} 2", message={**QUESTION, "id": "u2"})
    assert [message["id"] for message in shown["messages"]] == [
        *("u1", "a-thought", "a-first", "a-call-result", "a-second"),
        *("u2", "b-thought", "b-first", "b-call-result", "b-second"),
    ]
    given = served.upstream.inputs[f"{thread} 2"]["messages"]
    assert [message["role"] for message in given if message["role"] != "reasoning"] == [
        *("user", "assistant", "tool", "assistant", "user")
    ]
    assert given[0]["content"] == IMAGE["content"]


def test_a_new_page_sends_only_what_is_new_and_the_agent_gets_all(open_page: Open, served: Served, thread: str) -> None:
    served.upstream.play(thread, scripts.answer("a"), scripts.answer("b"))
    open_page().do("run", agent="a", thread=thread, run=f"{thread} 1", message=QUESTION)
    open_page().do("run", agent="a", thread=thread, run=f"{thread} 2", message={**QUESTION, "id": "u2"})
    given = served.upstream.inputs[f"{thread} 2"]["messages"]
    assert [message["content"] for message in given if message["role"] in ("user", "assistant")] == [
        *("How warm is it?", "I look it up", "It is 18 degrees", "How warm is it?")
    ]


def test_a_cancelled_run_ends_closed_for_its_client_and_the_agent_is_stopped(
    open_page: Open, served: Served, thread: str, request: pytest.FixtureRequest
) -> None:
    page, gate = open_page(), threading.Event()
    # Cut short in the middle of a message.
    served.upstream.play(thread, [scripts.started(), *scripts.text("m1", "One ", "two")[:2], gate])
    run = page.start("run", agent="a", thread=thread, run="r1", message=QUESTION)
    page.wait_for("a", "TEXT_MESSAGE_CONTENT")
    assert page.do("cancel", thread=thread, run="r1") == {"cancelled": True}
    shown = run.result()
    assert [message["content"] for message in shown["messages"]] == ["How warm is it?", "One "]
    assert [event["type"] for event in page.seen["a"]][-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
    # The older client would fail on an outcome that it does not know.
    knows_it = request.node.callspec.params["open_page"] == "1.0.0"
    assert page.seen["a"][-1].get("outcome") == ({"type": "cancelled"} if knows_it else None)
    assert gate.wait(60)
    assert page.do("cancel", thread=thread, run="r1") == {"cancelled": False}
    with served.http as http:
        runs = http.get(f"/threads/{thread}/runs/").json()["items"]
    assert [(found["status"], found["outcome"]) for found in runs] == [("interrupted", {"type": "cancelled"})]


def test_a_second_run_on_a_busy_thread_is_refused_by_name(open_page: Open, served: Served, thread: str) -> None:
    page, gate = open_page(), threading.Event()
    served.upstream.play(thread, [scripts.started(), gate, scripts.finished()])
    run = page.start("run", agent="a", thread=thread, run="r1", message=QUESTION)
    page.wait_for("a", "RUN_STARTED")
    with pytest.raises(PageError, match="r1"):
        page.do("run", agent="b", thread=thread, run="r2", message=QUESTION)
    gate.set()
    assert [message["id"] for message in run.result()["messages"]] == ["u1"]

"""The published CopilotKit client uses the gateway as its runtime: it lists, opens, runs and stops threads."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from interop.__main__ import TOKEN
from interop.js import page, scripts
from interop.js.conftest import Served
from interop.js.page import Page

QUESTION = {"id": "u1", "role": "user", "content": "How warm is it?"}
FOLDER = "copilotkit-1.75.0"
ANSWER = ["user", "reasoning", "assistant", "tool", "assistant"]
Open = Callable[[], Page]


@pytest.fixture(params=["", "rest", "single"], ids=["by default", "by paths", "by one path"])
def open_page(request: pytest.FixtureRequest, served: Served) -> Iterator[Open]:
    """Opens a page with CopilotKit's client, over each of its transports; each is a device of its own."""
    url = f"{served.url}/copilotkit"
    with ExitStack() as stack:
        yield lambda: stack.enter_context(
            page.opened("frontend.mjs", FOLDER, url, TOKEN, *([request.param] if request.param else []))
        )


def test_a_page_connects_and_finds_the_agent_and_the_threads(open_page: Open) -> None:
    assert open_page().do("info") == {
        "status": "connected",
        "agents": ["default"],
        "threads": {"list": True, "inspect": True, "mutations": True, "realtimeMetadata": False},
        "errors": [],
    }


def test_a_thread_is_run_twice_and_opened_on_another_device(open_page: Open, served: Served, thread: str) -> None:
    served.upstream.play(thread, scripts.answer("a"), scripts.answer("b"))
    first = open_page()
    assert first.do("open", thread=thread) == {"messages": [], "state": {}, "interrupts": [], "errors": []}
    shown = first.do("run", thread=thread, message=QUESTION)
    assert [message["role"] for message in shown["messages"]] == ANSWER
    shown = first.do("run", thread=thread, message={**QUESTION, "id": "u2"})
    assert [message["role"] for message in shown["messages"]] == [*ANSWER, *ANSWER]
    assert (shown["state"], shown["errors"]) == ({"city": "Paris"}, [])

    opened = open_page().do("open", thread=thread)
    assert (comparable(opened), opened["state"], opened["errors"]) == (comparable(shown), {"city": "Paris"}, [])


def test_a_thread_is_opened_while_it_streams_and_ends_alike(open_page: Open, served: Served, thread: str) -> None:
    gate = threading.Event()
    served.upstream.play(thread, scripts.answer("a", gate))
    first, second = open_page(), open_page()
    running = first.start("run", thread=thread, message=QUESTION)
    first.wait_for("default", "REASONING_MESSAGE_CONTENT")
    opening = second.start("open", thread=thread)
    second.wait_for("default", "REASONING_MESSAGE_START")
    gate.set()
    shown, opened = running.result(), opening.result()
    assert [message["role"] for message in shown["messages"]] == ANSWER
    assert (comparable(opened), opened["state"], opened["errors"]) == (comparable(shown), {"city": "Paris"}, [])


def test_a_run_that_is_stopped_ends_for_its_page_and_for_the_agent(
    open_page: Open, served: Served, thread: str
) -> None:
    gate = threading.Event()
    served.upstream.play(thread, [scripts.started(), *scripts.text("m1", "One ", "two")[:2], gate], scripts.answer("b"))
    page_ = open_page()
    running = page_.start("run", thread=thread, message=QUESTION)
    page_.wait_for("default", "TEXT_MESSAGE_CONTENT")
    page_.do("stop", thread=thread)
    shown = running.result()
    assert [message["content"] for message in shown["messages"]] == ["How warm is it?", "One "]
    assert shown["errors"] == []
    assert gate.wait(60)
    with served.http as http:
        (run,) = http.get(f"/threads/{thread}/runs/").json()["items"]
    assert run["status"] == "interrupted"
    shown = page_.do("run", thread=thread, message={**QUESTION, "id": "u2"})
    assert [message["role"] for message in shown["messages"]] == ["user", "assistant", *ANSWER]


def test_a_question_is_answered_on_another_device(open_page: Open, served: Served, thread: str) -> None:
    asked = {"id": "i1", "reason": "confirmation", "message": "Send it?"}
    asking = [scripts.started(), scripts.finished(outcome={"type": "interrupt", "interrupts": [asked]})]
    served.upstream.play(thread, asking, scripts.answer("b"))
    assert open_page().do("run", thread=thread, message=QUESTION)["interrupts"] == [asked]
    second = open_page()
    assert second.do("open", thread=thread)["interrupts"] == [asked]
    answer = {"interruptId": "i1", "status": "resolved", "payload": {"yes": True}}
    shown = second.do("run", thread=thread, resume=[answer])
    assert (shown["messages"][-1]["content"], shown["interrupts"], shown["errors"]) == ("It is 18 degrees", [], [])


def test_suggestions_come_from_the_agent_and_leave_no_thread(served: Served, thread: str) -> None:
    """Over one path for all the client would make them by runs of its own."""
    suggestions = {"suggestions": [{"title": "Paris", "message": "How warm is it in Paris?"}]}
    call = scripts.call("s1", "s", json.dumps(suggestions), result="")[:3]
    call[0]["toolCallName"] = "copilotkitSuggest"
    served.upstream.play_next([scripts.started(), *call, scripts.finished()])
    with page.opened("frontend.mjs", FOLDER, f"{served.url}/copilotkit", TOKEN) as page_:
        before = [found["id"] for found in listed(page_, archived=True)]
        (suggestion,) = page_.do("suggest", thread=thread)
        assert suggestion["message"] == "How warm is it in Paris?"
        assert [found["id"] for found in listed(page_, archived=True)] == before


def test_threads_are_listed_renamed_archived_and_deleted(open_page: Open, served: Served, thread: str) -> None:
    served.upstream.play(thread, scripts.answer("a"))
    page_ = open_page()
    page_.do("run", thread=thread, message=QUESTION)
    newest = listed(page_)[0]
    assert (newest["id"], newest["name"], newest["agentId"]) == (thread, "How warm is it?", "default")

    page_.do("rename", thread=thread, name="Weather")
    assert listed(page_)[0]["name"] == "Weather"
    page_.do("archive", thread=thread)
    assert thread not in [found["id"] for found in listed(page_)]
    assert [found["archived"] for found in listed(page_, archived=True) if found["id"] == thread] == [True]
    page_.do("unarchive", thread=thread)
    assert listed(page_)[0]["id"] == thread
    page_.do("delete", thread=thread)
    assert thread not in [found["id"] for found in listed(page_, archived=True)]


def listed(page_: Page, *, archived: bool = False) -> list[page.Json]:
    """What a list of threads shows."""
    answer = page_.do("threads", archived=archived)
    assert answer["error"] is None
    threads: list[page.Json] = answer["threads"]
    return threads


def comparable(shown: page.Json) -> list[page.Json]:
    """The messages without what is empty, which clients leave out or not."""
    return [{name: value for name, value in message.items() if value} for message in shown["messages"]]

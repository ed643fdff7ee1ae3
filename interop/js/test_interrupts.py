"""A page of the published AG-UI client that is loaded again and has forgotten what the agent asked."""

import pytest

from interop.js import scripts
from interop.js.conftest import Open, Served
from interop.js.page import Json, PageError

HELLO = {"id": "u1", "role": "user", "content": "Pay the bill"}
LATER = {"id": "u2", "role": "user", "content": "Never mind. How warm is it?"}
ASKED = {"id": "i1", "reason": "confirmation", "message": "Really?"}
CANCELLED = {"interruptId": "i1", "status": "cancelled"}


def listed(served: Served, thread: str) -> list[Json]:
    with served.http as http:
        items: list[Json] = http.get(f"/threads/{thread}/interrupts/").raise_for_status().json()["items"]
    return items


def test_new_input_is_held_to_the_question_where_the_client_knows_of_such_and_else_moves_on(
    open_page: Open, served: Served, thread: str, request: pytest.FixtureRequest
) -> None:
    asking = [scripts.started(), scripts.finished(outcome={"type": "interrupt", "interrupts": [ASKED]})]
    served.upstream.play(thread, asking, scripts.answer("b"))
    shown = open_page().do("run", agent="a", thread=thread, run=f"{thread} 1", message=HELLO)
    assert [asked["id"] for asked in shown["interrupts"]] == ["i1"]
    (waiting,) = listed(served, thread)
    assert (waiting["state"], waiting["interrupt"]) == ("open", ASKED)

    again = open_page()
    if "1.0.0" in request.node.callspec.id:
        with pytest.raises(PageError, match="409"):
            again.do("run", agent="a", thread=thread, run=f"{thread} 2", message=LATER)
        assert f"{thread} 2" not in served.upstream.inputs
        with served.http as http:
            path = f"/threads/{thread}/interrupts/i1/cancel/"
            assert http.post(path).raise_for_status().json() == {"cancelled": True}
        again = open_page()
    moved_on = again.do("run", agent="a", thread=thread, run=f"{thread} 3", message=LATER)
    assert moved_on["messages"][-1]["content"] == "It is 18 degrees"
    assert served.upstream.inputs[f"{thread} 3"]["resume"] == [CANCELLED]
    (ended,) = listed(served, thread)
    assert (ended["state"], ended["endedBy"]) == ("cancelled", f"{thread} 3")


def test_the_answer_of_a_run_that_failed_may_be_given_again_as_the_client_demands(
    open_page: Open, served: Served, thread: str
) -> None:
    asking = [scripts.started(), scripts.finished(outcome={"type": "interrupt", "interrupts": [ASKED]})]
    failing: scripts.Steps = [scripts.started(), {"type": "RUN_ERROR", "message": "503"}]
    served.upstream.play(thread, asking, failing, scripts.answer("b"))
    page, answer = open_page(), [{"interruptId": "i1", "status": "resolved", "payload": {"yes": True}}]
    page.do("run", agent="a", thread=thread, run=f"{thread} 1", message=HELLO)
    failed = page.do("run", agent="a", thread=thread, run=f"{thread} 2", resume=answer)
    # The client holds on to the question, and would send nothing that does not answer it.
    assert [asked["id"] for asked in failed["interrupts"]] == ["i1"]
    answered = page.do("run", agent="a", thread=thread, run=f"{thread} 3", resume=answer)
    assert answered["interrupts"] == []
    assert served.upstream.inputs[f"{thread} 3"]["resume"] == answer
    assert [(each["state"], each["endedBy"]) for each in listed(served, thread)] == [("resolved", f"{thread} 3")]

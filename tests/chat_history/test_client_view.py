"""What a client shows of a stream: by the rules of the published clients, with the values that they come to."""

from collections.abc import Mapping
from typing import Any

from tests.chat_history.scripts import called, said, started
from threadkeep.chat_history.ag_ui.client_view import ClientView

Event = Mapping[str, Any]


def view_of(*events: Event, messages: list[Event] | None = None, state: Any = None) -> ClientView:
    view = ClientView(messages or [], state)
    for event in events:
        view.see(event["type"], event)
    return view


def result(call: str, content: Any = "ok") -> Event:
    return {"type": "TOOL_CALL_RESULT", "messageId": f"t-{call}", "toolCallId": call, "content": content}


def outline(view: ClientView) -> list[tuple[str, Any]]:
    return [(message["id"], message.get("content")) for message in view.messages()]


def test_results_stand_behind_the_message_that_called_in_the_order_in_which_they_came() -> None:
    calls = [{**event, "parentMessageId": "m1"} for event in (*called("c1"), *called("c2"))]
    view = view_of(*said("m1", "Both"), *calls, *said("m2", "done"), result("c2"), result("c1"), result("c9"))
    assert outline(view) == [("m1", "Both"), ("t-c2", "ok"), ("t-c1", "ok"), ("m2", "done"), ("t-c9", "ok")]
    assert [call["id"] for call in view.messages()[0]["toolCalls"]] == ["c1", "c2"]


def test_a_message_id_is_one_message_whatever_comes_between_its_blocks() -> None:
    view = view_of(*said("m1", "Before. "), *called("c1"), result("c1"), *said("m1", "After."))
    assert outline(view)[0] == ("m1", "Before. After.")


def test_a_call_whose_parent_is_no_message_of_an_agent_gets_a_message_of_its_own() -> None:
    asked = {"id": "u1", "role": "user", "content": "hi"}
    named, unknown, alone = ({**called(f"c{n}")[0]} for n in (1, 2, 3))
    alone = {name: value for name, value in alone.items() if name != "parentMessageId"}
    calls = ({**named, "parentMessageId": "u1"}, {**unknown, "parentMessageId": "m7"}, alone)
    view = view_of(*calls, messages=[asked])
    assert [message["id"] for message in view.messages()] == ["u1", "c1", "m7", "c3"]


def test_a_snapshot_replaces_the_list_but_for_what_its_agent_knows_nothing_of() -> None:
    thought = {"type": "REASONING_MESSAGE_START", "messageId": "z1"}
    plan = {"type": "ACTIVITY_SNAPSHOT", "messageId": "a1", "activityType": "PLAN", "content": {"n": 1}}
    snapshot = [{"id": "m1", "role": "assistant", "content": "Anew"}, {"id": "m2", "role": "user", "content": "x"}]
    view = view_of(
        *said("m0", "gone"), thought, plan, *said("m1", "old"), {"type": "MESSAGES_SNAPSHOT", "messages": snapshot}
    )
    assert [message["id"] for message in view.messages()] == ["z1", "a1", "m1", "m2"]
    assert view.messages()[2]["content"] == "Anew"
    with_thought = [*snapshot, {"id": "z9", "role": "reasoning", "content": "hm"}]
    view.see("MESSAGES_SNAPSHOT", {"messages": with_thought})
    assert [message["id"] for message in view.messages()] == ["a1", "m1", "m2", "z9"]


def test_what_a_run_was_given_and_a_client_lacks_is_shown() -> None:
    given = [{"id": "u1", "role": "user", "content": "known"}, {"id": "u2", "role": "user", "content": "new"}]
    view = view_of({**started(), "input": {"messages": given}}, messages=[{**given[0], "content": "mine"}])
    assert outline(view) == [("u1", "mine"), ("u2", "new")]


def test_activities_change_by_patches_and_are_replaced_unless_they_are_not_to_be() -> None:
    show = {"type": "ACTIVITY_SNAPSHOT", "messageId": "a1", "activityType": "PLAN", "content": {"n": 1}}
    patch = {"type": "ACTIVITY_DELTA", "messageId": "a1", "patch": [{"op": "add", "path": "/m", "value": 2}]}
    bad = {**patch, "patch": [{"op": "remove", "path": "/nothing"}]}
    view = view_of(show, patch, bad, {**show, "replace": False, "content": {}}, *said("a1", "no text goes in here"))
    assert [message["content"] for message in view.messages()] == [{"n": 1, "m": 2}]
    view.see("ACTIVITY_SNAPSHOT", {**show, "content": {"n": 9}})
    assert [message["content"] for message in view.messages()] == [{"n": 9}]


def test_encrypted_values_go_to_the_message_or_the_call_that_they_name() -> None:
    sealed = {"type": "REASONING_ENCRYPTED_VALUE", "entityId": "m1", "encryptedValue": "v1", "subtype": "message"}
    view = view_of(*said("m1", "x"), *called("c1"), sealed, {**sealed, "entityId": "c1", "subtype": "tool-call"})
    message, calling = view.messages()
    assert (message["encryptedValue"], calling["toolCalls"][0]["encryptedValue"]) == ("v1", "v1")


def test_the_messages_that_were_handed_in_stay_as_they_are() -> None:
    before = {"id": "m1", "role": "assistant", "content": "a", "metadata": {"k": 1}}
    end = {"type": "TEXT_MESSAGE_END", "messageId": "m1", "metadata": {"q": 2}}
    view = view_of(*said("m1", "b"), end, messages=[before])
    assert view.messages() == [{**before, "content": "ab", "metadata": {"k": 1, "q": 2}}]
    assert before == {"id": "m1", "role": "assistant", "content": "a", "metadata": {"k": 1}}

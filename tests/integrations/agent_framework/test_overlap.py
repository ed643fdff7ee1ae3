"""What of an input is new to a conversation."""

from agent_framework import Message

from threadkeep.integrations.agent_framework.marks import mark_stored
from threadkeep.integrations.agent_framework.overlap import new_messages


def talk(*texts: str) -> list[Message]:
    """Users and agents in turns."""
    return [Message("user" if place % 2 == 0 else "assistant", [text]) for place, text in enumerate(texts)]


def new(history: list[Message], messages: list[Message]) -> list[str]:
    return [message.text for message in new_messages(history, messages, "chat")]


def test_all_of_it_is_new_to_an_empty_conversation() -> None:
    assert new([], talk("a", "b", "a")) == ["a", "b", "a"]


def test_the_whole_conversation_sent_again_is_known() -> None:
    assert new(talk("a", "b"), talk("a", "b", "c")) == ["c"]


def test_the_end_of_the_conversation_sent_again_is_known() -> None:
    assert new(talk("a", "b", "c", "d"), talk("c", "d", "e")) == ["e"]


def test_what_an_agent_said_last_is_known() -> None:
    assert new(talk("a", "b"), [Message("assistant", ["b"]), Message("user", ["c"])]) == ["c"]


def test_a_user_who_says_the_same_again_means_it() -> None:
    assert new(talk("a"), talk("a")) == ["a"]
    assert new(talk("a", "b"), talk("a")) == ["a"]


def test_the_beginning_of_another_conversation_is_not_known() -> None:
    assert new(talk("a", "b", "c", "d"), talk("a", "b", "x")) == ["a", "b", "x"]


def test_an_id_is_known_in_its_role_only() -> None:
    history = [Message("user", ["a"], message_id="m1")]
    assert new(history, [Message("user", ["b"], message_id="m1"), Message("assistant", ["c"], message_id="m1")]) == [
        "c"
    ]


def test_a_mark_is_known_in_its_chat_only() -> None:
    here, elsewhere = talk("a"), talk("b")
    mark_stored(here[0], "chat", None, {})
    mark_stored(elsewhere[0], "another chat", None, {})
    assert new([], [*here, *elsewhere]) == ["b"]

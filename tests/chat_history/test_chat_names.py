"""What a new chat is called."""

import pytest

from threadkeep.chat_history.chat_names import name_of_chat, shortened


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("  Hello \n", "Hello"),
        ("one\ntwo  three", "one\ntwo  three"),
        ("a" * 101, "a" * 100),
        ("a" * 95 + " bbbb ccc", "a" * 95 + " bbbb"),
        ("a" * 95 + " " + "b" * 20, "a" * 95),
        ("a" * 94 + "." + "b" * 20, "a" * 94 + "."),
        ("a" * 70 + " " + "b" * 120, "a" * 70),
        ("a" * 69 + " " + "b" * 120, "a" * 69 + " " + "b" * 30),
        ("中" * 120, "中" * 100),
    ],
)
def test_a_long_text_is_cut_where_a_word_ends_unless_that_is_too_early(text: str, name: str) -> None:
    assert shortened(text) == name


def test_a_chat_is_called_by_what_its_user_says_first() -> None:
    messages = [
        {"id": "s", "role": "system", "content": "Be kind"},
        {"id": "u1", "role": "user", "content": [{"type": "text", "text": "see "}, {"type": "text", "text": "this"}]},
        {"id": "u2", "role": "user", "content": "and that"},
    ]
    assert name_of_chat(messages) == "see this"


@pytest.mark.parametrize("messages", [[], [{"role": "user", "content": " \n"}], [{"role": "user"}]])
def test_where_nothing_was_said_it_is_a_new_chat(messages: list[dict[str, str]]) -> None:
    assert name_of_chat(messages) == "New Chat"

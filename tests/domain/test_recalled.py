"""What came from memory, and its marks."""

from threadkeep.domain import recalled


def test_memories_in_marks_are_left_out() -> None:
    text = "<recalled-memories>\nLikes tea\nHas two cats\n</recalled-memories>"

    assert recalled.without(f"Hello {text} there {text}") == "Hello  there "


def test_a_mark_alone_is_a_text_like_any_other() -> None:
    for text in (recalled.OPEN, f"{recalled.CLOSE} and {recalled.OPEN}"):
        assert recalled.without(text) == text

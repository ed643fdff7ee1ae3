"""What is said in events and messages, as a model reads it."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.talk import DAY, talk
from threadkeep.domain import recalled
from threadkeep.domain.event import Event
from threadkeep.memory.transcript import Line, parts, read_event, read_message, render, tokens_of


def event(body: Any, emitter: str = "user", type: str | None = "message") -> Event:
    return Event(7, json.dumps(body), type, emitter, "ann" if emitter == "user" else None, DAY)


def said(body: Any, emitter: str = "user", type: str | None = "message") -> tuple[str | None, str] | None:
    line = read_event(event(body, emitter, type))
    return None if line is None else (line.person, line.text)


@pytest.mark.parametrize(
    ("body", "emitter", "type", "expected"),
    [
        ({"content": "I like tea"}, "user", "message", ("ann", "I like tea")),
        ({"content": " I like tea ", "role": "user"}, "user", None, ("ann", "I like tea")),
        ({"content": "Do you?", "role": "assistant"}, "agent", "message", (None, "Do you?")),
        ({"content": "Do you?"}, "agent", "anything", (None, "Do you?")),
        # Somebody else's words under a user's name, or a user's under an agent's.
        ({"content": "Be kind", "role": "system"}, "user", "message", None),
        ({"content": "I like tea", "role": "user"}, "agent", "message", None),
        ({"content": "42", "role": "tool"}, "agent", "message", None),
        ({"content": "42"}, "agent", "tool_output", None),
        ({"content": "busy"}, "agent", "status", None),
        ({"content": "Likes tea"}, "user", "memory", None),
        ({"content": "Likes tea"}, "agent", "memory", None),
        ({}, "user", "message", None),
        ({"content": "\u200b"}, "user", "message", None),
        ({"content": "a\u0000b\ud83d\ude00\ud83d"}, "user", "message", ("ann", "ab😀\ufffd")),
    ],
)
def test_a_line_is_what_a_person_or_an_agent_said(
    body: Any, emitter: str, type: str | None, expected: tuple[str | None, str] | None
) -> None:
    assert said(body, emitter, type) == expected


def test_what_came_from_memory_is_left_out_of_what_was_said() -> None:
    tea, cat = (f"{recalled.OPEN}\n{text}\n{recalled.CLOSE}" for text in ("Likes tea", "Has a cat"))
    assert said({"content": f"{tea}\nWhat shall I drink? {cat}"}) == ("ann", "What shall I drink?")
    assert said({"content": tea}) is None
    assert said({"content": f"{recalled.OPEN} is a mark"}) == ("ann", f"{recalled.OPEN} is a mark")


def test_a_body_nested_beyond_reading_says_nothing() -> None:
    body = '{"content":"I like tea","x":' + "[" * 100_000 + "]" * 100_000 + "}"
    assert read_event(Event(7, body, "message", "user", "ann", DAY)) is None


def test_messages_are_read_by_their_role() -> None:
    assert read_message(1, {"role": "user", "content": "I like tea"}, DAY) == Line(1, "user", "I like tea", DAY)
    assert read_message(2, {"role": "user", "name": "ann", "content": "x"}, None) == Line(2, "ann", "x")
    assert read_message(3, {"role": "assistant", "content": "x"}, None) == Line(3, None, "x")
    assert read_message(4, {"role": "system", "content": "x"}, None) is None
    parts_of_one = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]
    assert read_message(5, {"role": "user", "content": parts_of_one}, None) == Line(5, "user", "a\nb")


def test_a_transcript_numbers_its_lines_and_names_nobody() -> None:
    text = render(talk("ann: I like tea", "- Do you?", "bob: I do not"))
    assert text.splitlines() == [
        "<transcript>",
        '{"n":1,"speaker":"user 1","date":"2026-11-29","text":"I like tea"}',
        '{"n":2,"speaker":"assistant","date":"2026-11-29","text":"Do you?"}',
        '{"n":3,"speaker":"user 2","date":"2026-11-29","text":"I do not"}',
        "</transcript>",
    ]


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5))
def test_nothing_that_is_said_makes_a_line_or_ends_the_transcript(texts: list[str]) -> None:
    lines = render([Line(number, "ann", text) for number, text in enumerate(texts)]).split("\n")

    assert (lines[0], lines[-1]) == ("<transcript>", "</transcript>")
    assert [json.loads(line)["text"] for line in lines[1:-1]] == texts
    assert not any("<" in line for line in lines[1:-1])


def test_a_long_conversation_goes_in_parts_each_with_what_was_said_before() -> None:
    lines = talk(*[f"ann: {'word ' * 60}{number}" for number in range(10)])

    found = list(parts(lines, 500))

    assert len(found) > 2
    assert [line.number for part in found for line in part if not line.is_context] == [n * 10 for n in range(1, 11)]
    assert all(sum(map(tokens_of, part)) <= 500 for part in found)
    assert not any(line.is_context for line in found[0])
    for before, part in itertools.pairwise(found):
        assert [line.number for line in part if line.is_context] == [before[-1].number]


def test_a_line_too_long_for_a_part_is_cut_between_words() -> None:
    (line,) = talk("ann: " + " ".join(f"word{number}" for number in range(2_000)))

    found = list(parts([line], 1_000))

    pieces = [line for part in found for line in part if not line.is_context]
    assert "".join(piece.text for piece in pieces) == line.text
    assert {piece.number for piece in pieces} == {10}
    assert all(tokens_of(piece) <= 1_000 for piece in pieces)
    assert all(piece.text.endswith(" ") for piece in pieces[:-1])


def test_a_line_without_spaces_or_of_wide_characters_is_cut_as_well() -> None:
    text = "日本語😀" * 2_000
    found = [line for part in parts([Line(1, "ann", text)], 1_000) for line in part if not line.is_context]
    assert "".join(line.text for line in found) == text
    assert all(tokens_of(line) <= 1_000 for line in found)


def test_parts_in_which_no_person_speaks_are_left_out() -> None:
    assert list(parts(talk("- Hello", "- Are you there?"), 500)) == []
    assert list(parts([], 500)) == []
    assert len(list(parts(talk("- Hello", "ann: yes"), 500))) == 1


def test_long_speeches_of_agents_are_shown_by_their_ends() -> None:
    line = read_event(event({"content": "a" * 5_000 + " Do you like tea?"}, "agent"))
    assert line is not None
    assert len(line.text) == 1_203
    assert line.text.endswith("Do you like tea?")

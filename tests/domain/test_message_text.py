"""Which texts of an event's body are counted."""

import json

import pytest

from threadkeep.domain.message_text import texts


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("{}", []),
        ('{"content": "\\u65e5"}', ["日"]),
        ('{"content": "日"}', ["日"]),
        ('{"content": ""}', []),
        ('{"content": "\\u200b"}', []),
        ('{"content": 5, "other": "no"}', []),
        ('{"tool_calls": null}', []),
        ('{"tool_calls": [1, {"name": "no", "arguments": "{}", "content": "4"}, {"content": null}]}', ["{}", "4"]),
        ('{"content": "a", "tool_calls": [{"arguments": "b", "content": "c"}]}', ["a", "b", "c"]),
        ('{"content": "a", "n": ' + "9" * 5_000 + "}", ["a"]),
        ('{"content": "a", "deep": ' + "[" * 100_000 + "]" * 100_000 + "}", []),
    ],
)
def test_content_and_what_tools_were_given_and_gave(body: str, found: list[str]) -> None:
    assert texts(body) == found


def test_halves_of_surrogate_pairs_are_joined_where_they_meet() -> None:
    assert texts(json.dumps({"content": "\ud83d\ude00"})) == ["😀"]

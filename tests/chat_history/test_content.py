"""Content that may be text or parts."""

from typing import Any

import pytest

from tests.chat_history.folded import fold
from tests.chat_history.scripts import called, result, run_of
from threadkeep.chat_history.ag_ui.content import text_and_parts

IMAGE = {"type": "image", "source": {"type": "data", "value": "iVBO", "mimeType": "image/png"}}


@pytest.mark.parametrize(
    ("content", "text", "parts"),
    [
        ("plain", "plain", None),
        (None, "", None),
        ([{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}], "ab", 3),
        ([IMAGE], "", 1),
        ([{"type": "binary", "mimeType": "image/png", "data": "iVBO"}], "", 1),
        ([{"type": "text", "text": 7}, {"type": "hologram", "id": "h"}], "", 2),
        ([], "[]", None),
        ([1, 2], "[1,2]", None),
        ([{"type": "hologram"}], '[{"type":"hologram"}]', None),
        ([{"type": "text", "text": "a"}, 3], '[{"type":"text","text":"a"},3]', None),
        ({"a": 1}, '{"a":1}', None),
        (12345678901234567890123, "12345678901234567890123", None),
        (True, "true", None),
    ],
)
def test_content_is_text_or_parts_or_the_json_of_what_it_is(content: Any, text: str, parts: int | None) -> None:
    assert text_and_parts(content) == (text, None if parts is None else content)


def test_a_result_in_parts_is_kept_and_reads_as_text() -> None:
    parts = [{"type": "text", "text": "4C"}, IMAGE]
    call = fold(run_of(called("c1"), result("c1", parts))).rows[0].calls[0]
    assert (call.content, call.parts, call.status) == ("4C", parts, "complete")


def test_a_result_of_an_image_alone_is_a_result() -> None:
    call = fold(run_of(called("c1"), result("c1", [IMAGE]), result("c1", "late"))).rows[0].calls[0]
    assert (call.content, call.parts) == ("", [IMAGE])


@pytest.mark.parametrize(
    ("error", "kept", "status"),
    [
        ("denied", "denied", "errored"),
        ({"code": 7}, '{"code":7}', "errored"),
        (True, "true", "errored"),
        (0, "0", "errored"),
        (None, None, "complete"),
        ("", None, "complete"),
        (False, None, "complete"),
    ],
)
def test_a_result_may_say_that_it_is_a_failure(error: Any, kept: str | None, status: str) -> None:
    call = fold(run_of(called("c1"), {**result("c1", "r"), "error": error})).rows[0].calls[0]
    assert (call.content, call.error, call.status) == ("r", kept, status)

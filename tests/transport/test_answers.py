"""Answers: what the readers make of them, and what they refuse."""

import datetime
import json

import httpx
import pytest

from threadkeep import clock
from threadkeep.transport import answers

NOW = clock.from_datetime(datetime.datetime(2026, 10, 21, 7, 27, 29, 500_000, tzinfo=datetime.UTC))


def response(content: bytes, status: int = 200) -> httpx.Response:
    return httpx.Response(status, content=content, request=httpx.Request("GET", "http://t.test/api/v2/memory/x/"))


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("30", 30),
        (" 30 ", 30),
        ("0", 0),
        ("1.5", 2),
        ("2.0", 2),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 31),
        ("Wed, 21 Oct 2026 07:00:00 GMT", 0),
        ("Wednesday, 21-Oct-26 07:28:00 GMT", 31),
        ("Fri, 01 Jan 99999 00:00:00 GMT", None),
        ("Fri, 32 Jan 2027 00:00:00 GMT", None),
        (None, None),
        ("", None),
        ("-1", None),
        ("1e9", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("٣", None),
        ("9" * 5_000, None),
        ("Mon, Mon, Mon", None),
    ],
)
def test_retry_after_is_whole_seconds_or_none_and_never_raises(header: str | None, seconds: int | None) -> None:
    """Field case 131."""
    assert answers.parse_retry_after(header, NOW) == seconds


def test_lone_surrogate_escapes_and_nul_are_read_as_they_are() -> None:
    assert answers.read_json(response(rb'{"a": "x\u0000\ud83d"}')) == {"a": "x\x00\ud83d"}


@pytest.mark.parametrize(
    "content", [b'{"items": [', b"", b"<html>502</html>", b"\xff\xfe\xfa", b"[" * 200_000], ids=len
)
def test_a_body_that_is_no_json_is_an_error_of_httpx(content: bytes) -> None:
    with pytest.raises(httpx.DecodingError, match=r"GET /api/v2/memory/x/ \(HTTP 200\) is no JSON") as raised:
        answers.read_json(response(content))
    assert raised.value.__cause__ is not None


@pytest.mark.parametrize(
    "answer", [[], {}, {"items": {}, "total": 0}, {"items": [], "total": None}, {"items": [1], "total": 1}]
)
def test_what_is_no_page_is_never_an_empty_list(answer: object) -> None:
    with pytest.raises(httpx.DecodingError):
        answers.read_page("id")(response(json.dumps(answer).encode()))


@pytest.mark.parametrize("answer", ["null", '"x"', "{}", '{"ID": 1}'])
def test_an_object_without_its_id_is_an_error_of_httpx(answer: str) -> None:
    with pytest.raises(httpx.DecodingError, match="lacks 'id'"):
        answers.read_row("id")(response(answer.encode()))


@pytest.mark.parametrize(
    ("content", "detail", "payload"),
    [
        (b'{"detail": "gone"}', "gone", {"detail": "gone"}),
        (
            b'{"detail": [{"loc": ["body", "events", 3], "msg": "bad", "type": "t"}, {"loc": [], "msg": "worse"}]}',
            "body.events.3: bad; worse",
            {"detail": [{"loc": ["body", "events", 3], "msg": "bad", "type": "t"}, {"loc": [], "msg": "worse"}]},
        ),
        (b"<h1>Bad\n Gateway</h1>", "<h1>Bad Gateway</h1>", None),
        (b"", "Bad Gateway", None),
        (b"[]", "Bad Gateway", []),
        (b'{"detail": ["odd", null]}', "odd; None", {"detail": ["odd", None]}),
    ],
)
def test_an_error_answer_is_one_line_of_text_and_its_payload(content: bytes, detail: str, payload: object) -> None:
    assert answers.read_error(response(content, 502)) == (detail, payload)

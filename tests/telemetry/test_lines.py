"""Lines of the log: what they hold, and what they never hold."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from threadkeep.telemetry import logs
from threadkeep.telemetry.context import request_id
from threadkeep.telemetry.lines import as_json, as_text, format_time

LOG = logging.getLogger("threadkeep.test")


@contextmanager
def logged(level: str, form: str) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    with logs.configured(level=level, form=form, stream=stream):
        yield stream


SAID = "-".join(["what", "somebody", "said"])


def fail_at_a_row() -> None:
    try:
        raise KeyError(SAID)
    except KeyError as error:
        raise ValueError(SAID) from error


def test_a_line_is_one_json_object_with_the_id_of_its_request() -> None:
    with logged("info", "json") as stream:
        before = request_id.set("r-7")
        try:
            LOG.info("a %s\nof two", "message")
        finally:
            request_id.reset(before)

    (line,) = stream.getvalue().splitlines()
    told = json.loads(line)
    assert told.pop("time").endswith("Z")
    assert told == {"level": "info", "logger": "threadkeep.test", "message": "a message\nof two", "request_id": "r-7"}


def test_a_plain_line_is_one_line_whatever_it_tells() -> None:
    with logged("info", "text") as stream:
        LOG.warning("a\nb\r\ud83d")

    assert stream.getvalue().endswith(" warning threadkeep.test a\\nb\\r\\ud83d\n")
    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_traceback_has_places_and_types_and_no_texts_of_foreign_errors(form: str) -> None:
    with logged("info", form) as stream:
        try:
            fail_at_a_row()
        except ValueError:
            LOG.exception("it failed")

    text = stream.getvalue()
    assert "fail_at_a_row" in text
    assert "builtins.KeyError" in text
    assert "builtins.ValueError" in text
    assert SAID not in text


def test_at_the_level_debug_nothing_is_left_out() -> None:
    with logged("debug", "json") as stream:
        try:
            fail_at_a_row()
        except ValueError:
            LOG.exception("it failed")

    assert f"ValueError: {SAID}" in stream.getvalue()


def test_a_level_leaves_out_what_is_below_it_and_libraries_only_warn() -> None:
    with logged("info", "text") as stream:
        LOG.debug("ours in detail")
        LOG.info("ours")
        logging.getLogger("library").info("theirs")
        logging.getLogger("library").warning("their warning")

    assert [line.split()[1:] for line in stream.getvalue().splitlines()] == [
        ["info", "threadkeep.test", "ours"],
        ["warning", "library", "their", "warning"],
    ]


def test_what_is_not_known_is_left_out() -> None:
    fields = {"time": "t", "level": "info", "logger": "l", "message": "m", "status": 200, "token_id": None}

    assert as_json(fields) == '{"time":"t","level":"info","logger":"l","message":"m","status":200}'
    assert as_text(fields) == "t info    l m status=200"
    assert as_json({"message": "\ud83d"}) == '{"message":"\\\\ud83d"}'


def test_time_is_told_in_utc() -> None:
    assert format_time(1_796_000_000.25) == "2026-11-30T00:53:20.250000Z"

"""Every statement, on both dialects: it compiles, and it names the space whose shard it runs on."""

import itertools
import re
from collections.abc import Iterator

import pytest

from threadkeep.storage import (
    appends,
    event_keys,
    events,
    extractions,
    jobs,
    lifecycle,
    purge,
    recent_sessions,
    runs,
    search,
    session_pages,
    sessions,
    spaces,
    token_counts,
    tokens,
)
from threadkeep.storage.statement import InsertMany, Statement, like_pattern

DIALECTS = ("sqlite", "postgresql")
# These look across spaces on purpose: for spaces of a user, runs and jobs that nobody holds, what is to be purged.
ACROSS_SPACES = {
    "spaces._COUNT",
    "spaces._LIST",
    "spaces._LIST_BY_KEY",
    "spaces._BY_KEY",
    "runs._RENEW",
    "runs._EXPIRED",
    "jobs._DUE",
    "purge._SPACES",
    "purge._SESSIONS",
    "purge._EVENTS",
    "purge._ANSWERS",
}
FORBIDDEN = re.compile(
    r"\b(?:now|random|clock_timestamp|gen_random_uuid|pg_advisory\w*)\(|\bSKIP LOCKED\b", re.IGNORECASE
)


def every_statement() -> Iterator[tuple[str, Statement]]:
    of_sessions = (sessions, session_pages, recent_sessions, search, lifecycle, token_counts, extractions)
    for module in (spaces, *of_sessions, jobs, purge, events, appends, runs, tokens):
        name = module.__name__.rpartition(".")[2]
        for attribute, value in vars(module).items():
            if isinstance(value, Statement):
                yield f"{name}.{attribute}", value
            if isinstance(value, InsertMany):
                yield f"{name}.{attribute}", value.of(1)
                yield f"{name}.{attribute}", value.of(64)
    yield "appends._advance", appends._advance(1)
    yield "appends._advance", appends._advance(64)
    for flags in ((False, False), (True, False), (False, True), (True, True)):
        yield "events._window", events._window(*flags)
    yield "appends._list", appends._list(1)
    yield "event_keys.lock", event_keys.lock(4)
    yield "event_keys.find", event_keys.find(4)
    for statement in (*purge._FEW, *itertools.chain(*purge._MANY)):
        yield "purge._of_session", statement
    for participants, *flags in itertools.product((0, 1, 2), *[(False, True)] * 3):
        yield "session_pages._page", session_pages._page(participants, *flags)


STATEMENTS = list(every_statement())


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("name", "statement"), STATEMENTS)
def test_it_compiles_and_stays_in_the_portable_subset(name: str, statement: Statement, dialect: str) -> None:
    if statement.only not in (None, dialect):
        return
    sql = statement.sql(dialect)

    assert not FORBIDDEN.search(sql)
    if not name.startswith(("tokens.", "search.")) and name not in ACROSS_SPACES:
        assert re.search(r"space_id\s*=|\(space_id,|wanted\.space", sql), sql


def test_there_are_statements_to_look_at() -> None:
    assert len(STATEMENTS) > 35


@pytest.mark.parametrize(("needle", "pattern"), [("a", "%a%"), ("50%", r"%50\%%"), ("a_b", r"%a\_b%"), ("\\", r"%\\%")])
def test_a_needle_for_like_means_itself(needle: str, pattern: str) -> None:
    assert like_pattern(needle) == pattern

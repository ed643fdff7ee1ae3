"""Every statement there is, on both dialects: it compiles, stays in the portable subset, and asks one shard."""

import importlib
import inspect
import itertools
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import ClauseElement, and_, bindparam, func, or_, select, update
from sqlalchemy.dialects import postgresql

from tests.storage.shards import Ties
from threadkeep import storage
from threadkeep.storage.statement import InsertMany, Statement, like_pattern, wanted_values
from threadkeep.storage.tables import events, sessions, spaces

DIALECTS = ("sqlite", "postgresql")
# These ask every shard, for the reason given; none of them is on the way of an append or of a read of one session.
ACROSS_SPACES = {
    "spaces._COUNT": "a user's spaces",
    "spaces._LIST": "a user's spaces",
    "spaces._LIST_AFTER": "a user's spaces",
    "spaces._LIST_BY_KEY": "a user's spaces: the key is unique among them",
    "spaces._BY_KEY": "a user's spaces: the key is unique among them",
    "runs._RENEW": "all runs that one process carries out",
    "runs._EXPIRED": "runs that nobody carries out any more",
    "runs._CANCELS_WANTED": "runs of one process that are to end",
    "jobs._DUE": "jobs that are due, whoever's they are",
    "purge._SPACES": "what was deleted long ago",
    "purge._SESSIONS": "what was deleted long ago",
    "purge._EVENTS": "what was deleted long ago",
    "purge._ANSWERS": "answers that were kept long enough",
    "transfer._SPACES": "all spaces, or one, on their way out",
    "transfer._SPACE_HOLDER": "a user's spaces: the key is unique among them",
    "memory_search._TAKEN": "the numbers of SQLite's full-text table, which all spaces share",
    "memory_search._numbers": "words of SQLite's full-text table, each spelled with its space",
    "vectors._OTHER_MODELS": "spaces whose vectors are of another model, wherever they are",
    "memory_removal._DELETED": "what was deleted long ago",
    "memory_removal._ANSWERED": "requests that were carried out long ago",
    "memory_removal._ABOUT": "what is remembered of a person, wherever it is",
    "memory_removal._HANDED_IN": "what was handed in as a person's, wherever it is",
    "erasure._SESSIONS": "a person's sessions, wherever they are",
    "erasure._OWN_SPACES": "a user's spaces",
    "erasure._REMOVE_OWN_ANSWERS": "what a user was answered, wherever it is",
}
VOLATILE = re.compile(
    r"\b(?:now|random|clock_timestamp|statement_timestamp|gen_random_uuid|nextval)\(|\bCURRENT_", re.IGNORECASE
)
FOREIGN = re.compile(r"\bpg_advisory\w*\(|\bSKIP LOCKED\b|\bNOTIFY\b|\bLISTEN\b", re.IGNORECASE)
# What a function that makes a statement is called with; a new kind of argument fails here, and is to be added.
ARGUMENTS: dict[Any, tuple[Any, ...]] = {int: (0, 1, 2, 64), bool: (False, True)}


def every_statement() -> Iterator[tuple[str, Statement]]:
    """Whatever the modules of the storage hold: by itself, in a list, or made by a function when it is first needed."""
    for info in pkgutil.iter_modules(storage.__path__):
        if info.name in ("migrations", "statement"):
            continue
        module = importlib.import_module(f"{storage.__name__}.{info.name}")
        for attribute, value in vars(module).items():
            name = f"{info.name}.{attribute}"
            if _is_maker(value) and inspect.unwrap(value).__module__ == module.__name__:
                yield from ((name, made) for made in _made_by(value))
            else:
                yield from ((name, each) for each in _held_in(value))


def _is_maker(value: Any) -> bool:
    return callable(value) and getattr(value, "__annotations__", {}).get("return") is Statement


def _made_by(maker: Any) -> Iterator[Statement]:
    kinds = [kind for name, kind in maker.__annotations__.items() if name != "return"]
    for arguments in itertools.product(*(ARGUMENTS[kind] for kind in kinds)):
        # Nobody asks for a list of no values.
        if len(kinds) > 1 or arguments != (0,):
            yield maker(*arguments)


def _held_in(value: Any) -> Iterator[Statement]:
    if isinstance(value, Statement):
        yield value
    elif isinstance(value, InsertMany):
        yield from (value.of(1), value.of(64))
    elif isinstance(value, list | tuple | set):
        yield from itertools.chain.from_iterable(map(_held_in, value))
    elif isinstance(value, dict):
        yield from _held_in(list(value.values()))


STATEMENTS = list({id(statement): (name, statement) for name, statement in every_statement()}.values())


def construct_of(statement: Statement) -> ClauseElement:
    construct = statement._construct
    return construct if isinstance(construct, ClauseElement) else construct(postgresql.insert)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("name", "statement"), STATEMENTS)
def test_it_compiles_and_stays_in_the_portable_subset(name: str, statement: Statement, dialect: str) -> None:
    if statement.only not in (None, dialect):
        return
    sql = statement.sql(dialect)

    assert not VOLATILE.search(sql)
    assert not FOREIGN.search(sql)


@pytest.mark.parametrize(("name", "statement"), STATEMENTS)
def test_each_table_of_it_is_tied_to_a_space(name: str, statement: Statement) -> None:
    ties = Ties(construct_of(statement))

    assert ties.tables
    assert bool(ties.loose()) == (name in ACROSS_SPACES), (ties.loose(), statement.sql("postgresql"))
    assert not any(ties.locks), "FOR UPDATE takes rows of one space only"


def test_all_statements_are_found() -> None:
    names = {name for name, _ in STATEMENTS}

    # In a module, in lists, in lists of tuples, and made when they are first needed.
    assert {"events._PATCH", "purge._FEW", "purge._MANY", "appends._INSERT", "session_pages._page"} <= names
    assert names >= ACROSS_SPACES.keys()
    assert len(STATEMENTS) > 110


SPACE = bindparam("space_id")
IN_SPACE = sessions.c.space_id == SPACE
ONE_OF_MANY = wanted_values(2, {"space": sessions.c.space_id.type})


@pytest.mark.parametrize(
    ("statement", "loose"),
    [
        (select(sessions.c.session_id).where(IN_SPACE), []),
        (select(sessions.c.session_id), ["sessions"]),
        (select(sessions.c.session_id).where(sessions.c.session_id == SPACE), ["sessions"]),
        (select(sessions.c.session_id).where(or_(IN_SPACE, sessions.c.version == 1)), ["sessions"]),
        (select(sessions.c.session_id).where(sessions.c.space_id > SPACE), ["sessions"]),
        (select(events.c.seq).join(sessions, events.c.space_id == sessions.c.space_id).where(IN_SPACE), []),
        (select(events.c.seq).join(sessions, events.c.seq == sessions.c.version).where(IN_SPACE), ["events"]),
        (select(events.c.seq).join(sessions, events.c.space_id == sessions.c.space_id), ["events", "sessions"]),
        (select(sessions.c.version).where(IN_SPACE, select(spaces.c.space_id).exists()), ["spaces"]),
        (
            select(sessions.c.version).where(
                IN_SPACE, select(spaces.c.user_id).where(spaces.c.space_id == sessions.c.space_id).exists()
            ),
            [],
        ),
        (select(select(sessions.c.version).subquery("inner").c.version), ["sessions"]),
        (select(func.count()).select_from(select(sessions.c.version).where(IN_SPACE).cte("hits")), []),
        (update(sessions).where(IN_SPACE).values(version=1), []),
        (update(sessions).where(sessions.c.session_id == SPACE).values(version=1), ["sessions"]),
        (update(sessions).where(sessions.c.space_id == ONE_OF_MANY.c.space).values(version=1), []),
        (update(sessions).where(IN_SPACE, sessions.c.version == events.c.seq).values(version=1), ["events"]),
        (update(sessions).where(IN_SPACE).values(version=select(events.c.seq).scalar_subquery()), ["events"]),
    ],
)
def test_a_table_that_is_not_tied_is_noticed(statement: ClauseElement, loose: list[str]) -> None:
    assert sorted(Ties(statement).loose()) == loose


def test_a_lock_on_rows_of_several_spaces_is_noticed() -> None:
    of_one = select(sessions.c.version).where(IN_SPACE).with_for_update()
    of_many = select(sessions.c.version).join(ONE_OF_MANY, sessions.c.space_id == ONE_OF_MANY.c.space)

    assert Ties(of_one).locks == [False]
    assert Ties(of_many.with_for_update()).locks == [True]
    assert Ties(and_(of_one.exists())).locks == [False]


@pytest.mark.parametrize(("needle", "pattern"), [("a", "%a%"), ("50%", r"%50\%%"), ("a_b", r"%a\_b%"), ("\\", r"%\\%")])
def test_a_needle_for_like_means_itself(needle: str, pattern: str) -> None:
    assert like_pattern(needle) == pattern

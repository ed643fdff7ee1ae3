"""Tokens: what is counted, and that a worker counts it when and only when a strategy asks."""

import json
from typing import Any

import pytest
from sqlalchemy import select

from tests.passing_time import At, is_there, load_case, message, work_at
from threadkeep import clock
from threadkeep.domain.event import EventChange, EventDraft
from threadkeep.domain.lifecycle import Strategy
from threadkeep.domain.session import SessionChange, SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.services import lifecycle, token_counting
from threadkeep.services.container import Container
from threadkeep.services.token_counting import count_tokens
from threadkeep.storage.statement import Statement
from threadkeep.storage.tables import session_counters

KEEP = Strategy("soft_delete", "never", True)
_KEPT = Statement(select(session_counters.c.session_id, session_counters.c.token_count, session_counters.c.tokens_to))


@pytest.fixture
async def at(container: Container) -> At:
    alice = await container.tokens.local_principal("alice")
    return alice, (await container.spaces.create(alice, SpaceDraft())).id


async def counting(container: Container, at: At, tokens: int) -> str:
    strategies = (Strategy("soft_delete", "tokenCount", tokens),)
    return (await container.sessions.create(*at, SessionDraft(("p",), strategies=strategies))).id


async def say(container: Container, at: At, session_id: str, *texts: str) -> None:
    await container.events.append(*at, session_id, [message(text) for text in texts])


async def rewrite(container: Container, at: At, session_id: str, sequence_id: int, text: str) -> None:
    await container.events.patch(*at, session_id, [EventChange(sequence_id, json.dumps({"content": text}), text)])


async def kept(container: Container, session_id: str) -> tuple[int, int]:
    """The tokens that are kept, and up to which event."""
    rows = await container.database.read(lambda: (yield _KEPT, {}))
    return next((row[1], row[2]) for row in rows if row[0] == session_id)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello world", 2), ("<|endoftext|>", 7), ("\ud800", 1), ("a" * 250_000, 31_250)],
)
def test_texts_have_the_tokens_of_o200k(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


@pytest.mark.parametrize("ascii_only", [True, False])
async def test_case_130_the_count_is_that_of_the_text_whatever_its_escapes(
    container: Container, at: At, ascii_only: bool
) -> None:
    texts = load_case("130-token-count-trigger-non-ascii")["input"]["events"]
    assert [count_tokens(text) for text in texts] == [40, 20]
    drafts = [
        EventDraft(json.dumps({"content": text}, ensure_ascii=ascii_only), text, None, "agent", None) for text in texts
    ]
    reached, missed = await counting(container, at, 60), await counting(container, at, 61)
    for session in (reached, missed):
        await container.events.append(*at, session, drafts)

    await work_at(container, clock.now())

    assert (await is_there(container, at, reached), await is_there(container, at, missed)) == (False, True)


async def test_what_tools_were_given_and_gave_counts_as_chat_history_stores_it(container: Container, at: At) -> None:
    call = {"name": "not counted", "arguments": '{"city":"Oslo"}', "content": "four degrees", "error": "not counted"}
    draft = message("\u200b", tool_calls=[call], reasonings=[{"content": "not counted"}], metadata={"content": "no"})
    tokens = count_tokens('{"city":"Oslo"}') + count_tokens("four degrees")
    assert tokens == 8
    reached, missed = await counting(container, at, tokens), await counting(container, at, tokens + 1)
    for session in (reached, missed):
        await container.events.append(*at, session, [draft])

    await work_at(container, clock.now())

    assert (await is_there(container, at, reached), await is_there(container, at, missed)) == (False, True)


async def test_a_long_session_is_counted_once_but_for_its_end(
    container: Container, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(lifecycle, "count_tokens", lambda text: seen.append(text) or 1)  # type: ignore[func-returns-value]
    monkeypatch.setattr(lifecycle, "_EVENTS_AT_ONCE", 40)
    session = await counting(container, at, 151)
    await say(container, at, session, *[f"{n}" for n in range(1, 151)])

    await work_at(container, clock.now())
    assert await kept(container, session) == (120, 120)
    assert len(seen) < 250
    seen.clear()
    await say(container, at, session, "151")
    await work_at(container, clock.now())

    assert seen == [f"{n}" for n in range(121, 152)]
    assert not await is_there(container, at, session)


async def test_a_changed_or_deleted_event_is_counted_again(container: Container, at: At) -> None:
    session = await counting(container, at, 60)
    await say(container, at, session, *["one"] * 50)
    await work_at(container, clock.now())
    assert await kept(container, session) == (20, 20)

    await container.events.delete(*at, session, 1)
    await work_at(container, clock.now())
    assert await kept(container, session) == (20, 21)
    await rewrite(container, at, session, 2, "one two three four five six seven eight nine ten")
    await rewrite(container, at, session, 50, "one two")
    await work_at(container, clock.now())
    assert await is_there(container, at, session)
    assert (await kept(container, session))[0] == 29
    await rewrite(container, at, session, 50, "one two three")
    await work_at(container, clock.now())

    assert not await is_there(container, at, session)


async def test_a_count_that_was_overtaken_by_a_change_is_not_kept(
    container: Container, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await counting(container, at, 10**6)
    await say(container, at, session, *["one"] * 50)
    settle = lifecycle.token_counts.settle

    def settle_late(*arguments: Any) -> Any:
        yield from lifecycle.token_counts.edited(at[1], session, 3, clock.now())
        yield from settle(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(lifecycle.token_counts, "settle", settle_late)
        (job,) = await container.jobs.claim("w", ["lifecycle"], clock.now(), limit=1)
        await container.lifecycle.run(job, clock.now())

    assert await kept(container, session) == (0, 0)


async def test_a_strategy_that_counts_may_come_late_and_sees_what_was_changed_before(
    container: Container, at: At
) -> None:
    session = await counting(container, at, 10**6)
    await say(container, at, session, *["one"] * 50)
    await work_at(container, clock.now())
    await container.sessions.patch(*at, session, SessionChange(strategies=(KEEP,)))
    await rewrite(container, at, session, 1, "one two three")
    late = Strategy("soft_delete", "tokenCount", 52)
    await container.sessions.patch(*at, session, SessionChange(strategies=(late,)))

    await work_at(container, clock.now())

    assert not await is_there(container, at, session)


@pytest.fixture
def _no_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Any:
        raise AssertionError("a tokenizer was loaded")

    monkeypatch.setattr(token_counting, "_encoding", refuse)


@pytest.mark.usefixtures("_no_tokenizer")
async def test_nothing_is_counted_where_no_strategy_asks(container: Container, at: At) -> None:
    strategies = (Strategy("soft_delete", "eventCount", 40),)
    session = (await container.sessions.create(*at, SessionDraft(("p",), strategies=strategies))).id
    await say(container, at, session, *["one"] * 40)

    await work_at(container, clock.now())

    assert not await is_there(container, at, session)

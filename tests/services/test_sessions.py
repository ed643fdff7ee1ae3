"""Sessions through the services, on both engines."""

import asyncio
import json

import pytest

from threadkeep.domain.event import EventDraft
from threadkeep.domain.lifecycle import Strategy
from threadkeep.domain.principal import Principal
from threadkeep.domain.session import SessionChange, SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.errors import DeduplicationConflict, Invalid, NotFound, SessionVersionMismatch
from threadkeep.services.container import Container
from threadkeep.services.sessions import Filters

At = tuple[Principal, str]


@pytest.fixture
async def at(container: Container) -> At:
    alice = await container.tokens.local_principal("alice")
    return alice, (await container.spaces.create(alice, SpaceDraft())).id


async def test_a_session_comes_back_as_it_was_made(container: Container, at: At) -> None:
    draft = SessionDraft(("p\0", "q"), "d\ud83d", '{"b": 1.50, "a": "\\u0000"}', (), "key\0")

    made = await container.sessions.create(*at, draft)

    assert await container.sessions.get(*at, made.id) == made
    assert made.metadata == '{"b": 1.50, "a": "\\u0000"}'
    assert (made.version, made.participants, made.description) == (1, ("p\0", "q"), "d\ud83d")
    assert json.loads(made.strategies) == [{"type": "soft_delete", "trigger": {"ttl": 15_552_000}, "opts": None}]


async def test_of_twenty_creates_with_one_key_exactly_one_wins(container: Container, at: At) -> None:
    answers = await asyncio.gather(
        *[container.sessions.create(*at, SessionDraft(("p",), deduplication_key="k")) for _ in range(20)],
        return_exceptions=True,
    )

    (made,) = [answer for answer in answers if not isinstance(answer, BaseException)]
    refused = [answer for answer in answers if isinstance(answer, DeduplicationConflict)]
    assert {error.existing_id for error in refused} == {made.id}
    assert len(refused) == 19
    assert (await container.sessions.page(*at, Filters()))[1] == 1


async def test_a_key_is_the_spaces_own_and_free_after_a_delete(container: Container, at: At) -> None:
    other = (await container.spaces.create(at[0], SpaceDraft())).id
    first = await container.sessions.create(*at, SessionDraft(("p",), deduplication_key="k"))
    await container.sessions.create(at[0], other, SessionDraft(("p",), deduplication_key="k"))

    await container.sessions.delete(*at, first.id)
    second = await container.sessions.create(*at, SessionDraft(("p",), deduplication_key="k"))

    found, _ = await container.sessions.page(*at, Filters(key="k"))
    assert [session.id for session in found] == [second.id]


async def test_lists_are_oldest_first_and_narrowed_by_each_filter(container: Container, at: At) -> None:
    async def make(people: tuple[str, ...], description: str | None) -> str:
        return (await container.sessions.create(*at, SessionDraft(people, description))).id

    async def ids(**filters: object) -> list[str]:
        found, total = await container.sessions.page(*at, Filters(**filters))  # type: ignore[arg-type]
        assert total == len(found)
        return [session.id for session in found]

    a = await make(("ann", "bob"), "//thread/One%2FTwo/")
    b = await make(("bob",), "50% of ÉCOLE_x")
    c = await make(("cid",), None)

    assert await ids() == [a, b, c]
    assert await ids(participants=("ann",)) == [a]
    assert await ids(participants=("ann", "cid")) == [a, c]
    assert await ids(participants=("nobody",)) == []
    assert await ids(needle="THREAD/one%2f") == [a]
    assert await ids(needle="école_") == [b]
    assert await ids(needle="50%") == [b]
    assert await ids(needle="5%of") == []
    assert await ids(needle="xcole") == []
    assert await ids(participants=("bob",), needle="//thread/") == [a]


async def test_lists_come_in_pages(container: Container, at: At) -> None:
    made = [(await container.sessions.create(*at, SessionDraft(("p",)))).id for _ in range(5)]

    found, total = await container.sessions.page(*at, Filters(("p",)), offset=3, limit=5)

    assert [session.id for session in found] == made[3:]
    assert total == 5
    with pytest.raises(Invalid, match="0 is not between 1 and 100"):
        await container.sessions.page(*at, Filters(), limit=0)
    with pytest.raises(Invalid, match="2 characters; a search needs at least 3"):
        await container.sessions.page(*at, Filters(needle="ab"))


async def test_each_patch_counts_the_version_up_and_events_do_not(container: Container, at: At) -> None:
    made = await container.sessions.create(*at, SessionDraft(("p",), "d", '{"a":1}'))

    same = await container.sessions.patch(*at, made.id, SessionChange(description="d"))
    nothing = await container.sessions.patch(*at, made.id, SessionChange())
    cleared = await container.sessions.patch(*at, made.id, SessionChange(metadata=None, description=None))
    await container.events.append(*at, made.id, [EventDraft("{}", None, None, "agent", None)])

    assert (same.version, nothing.version, cleared.version) == (2, 2, 3)
    assert (same.metadata, cleared.metadata, cleared.description) == ('{"a":1}', None, None)
    assert (await container.sessions.get(*at, made.id)).version == 3
    assert (await container.sessions.page(*at, Filters(needle="ddd")))[1] == 0


async def test_of_twenty_writers_with_one_version_exactly_one_wins(container: Container, at: At) -> None:
    made = await container.sessions.create(*at, SessionDraft(("p",)))

    answers = await asyncio.gather(
        *[
            container.sessions.patch(*at, made.id, SessionChange(description=f"d{n}"), expected_version=1)
            for n in range(20)
        ],
        return_exceptions=True,
    )

    (won,) = [answer for answer in answers if not isinstance(answer, BaseException)]
    lost = [answer for answer in answers if isinstance(answer, SessionVersionMismatch)]
    assert len(lost) == 19
    assert str(lost[0]).startswith("Session version mismatch")
    assert await container.sessions.get(*at, made.id) == won


async def test_an_empty_patch_still_checks_the_version(container: Container, at: At) -> None:
    made = await container.sessions.create(*at, SessionDraft(("p",)))

    with pytest.raises(SessionVersionMismatch):
        await container.sessions.patch(*at, made.id, SessionChange(), expected_version=2)


async def test_strategies_are_replaced_and_cannot_be_cleared(container: Container, at: At) -> None:
    made = await container.sessions.create(*at, SessionDraft(("p",)))
    idle = Strategy("extract_memories", "idle", 60, '{"agentId": "a"}')

    changed = await container.sessions.patch(*at, made.id, SessionChange(strategies=(idle,)))

    assert json.loads(changed.strategies) == [
        {"type": "extract_memories", "trigger": {"idle": 60}, "opts": {"agentId": "a"}}
    ]
    with pytest.raises(Invalid, match="at least one lifecycle strategy"):
        await container.sessions.patch(*at, made.id, SessionChange(strategies=()))


@pytest.mark.parametrize(
    ("draft", "loc"),
    [
        (SessionDraft(()), ("participants",)),
        (SessionDraft(tuple(map(str, range(51)))), ("participants",)),
        (SessionDraft(("a", "")), ("participants", 1)),
        (SessionDraft(("x" * 129,)), ("participants", 0)),
        (SessionDraft(("a",), "x" * 1_001), ("description",)),
        (SessionDraft(("a",), metadata='{"a":"' + "€" * 87_400 + '"}'), ("metadata",)),
    ],
)
async def test_a_draft_over_a_limit_is_refused_with_its_place(
    container: Container, at: At, draft: SessionDraft, loc: tuple[str | int, ...]
) -> None:
    with pytest.raises(Invalid) as caught:
        await container.sessions.create(*at, draft)

    assert caught.value.loc == loc
    assert (await container.sessions.page(*at, Filters()))[1] == 0


async def test_recent_sessions_come_by_activity_with_their_newest_event(container: Container, at: At) -> None:
    async def make(thread: str, person: str) -> str:
        return (await container.sessions.create(*at, SessionDraft((person,), f"//thread/{thread}/"))).id

    async def say(session_id: str, text: str, type_: str = "message") -> None:
        await container.events.append(
            *at, session_id, [EventDraft(f'{{"content":"{text}"}}', text, type_, "agent", None)]
        )

    first, second, silent = await make("1", "ann"), await make("2", "ann"), await make("3", "ann")
    other = await make("4", "bob")
    await say(other, "not ann's")
    await say(second, "early")
    await say(first, "hello")
    await say(first, "last words")
    await say(first, "no message", "status")
    run = await container.runs.begin(*at, second, run_id="r\0", parent_run_id=None, owner="o", lease_seconds=60)

    page = await container.sessions.recent(*at, participant="ann", prefix="//thread/", limit=2)
    rest = await container.sessions.recent(*at, participant="ann", prefix="//thread/", limit=2, before=page.next)

    assert [item.session.id for item in page.items] == [first, second]
    assert [item.last_event.body if item.last_event else None for item in page.items] == [
        '{"content":"last words"}',
        '{"content":"early"}',
    ]
    assert [item.active_run_id for item in page.items] == [None, run.run_id]
    assert [(item.session.id, item.last_event) for item in rest.items] == [(silent, None)]
    assert rest.next is None
    with pytest.raises(Invalid, match="is no cursor of this list"):
        await container.sessions.recent(*at, participant="ann", prefix="//thread/", limit=2, before="x")


async def test_nothing_of_one_user_is_there_for_another(container: Container, at: At) -> None:
    made = await container.sessions.create(*at, SessionDraft(("p",), deduplication_key="k"))
    bob = await container.tokens.local_principal("bob")

    for attempt in (
        container.sessions.get(bob, at[1], made.id),
        container.sessions.patch(bob, at[1], made.id, SessionChange(description="x")),
        container.sessions.delete(bob, at[1], made.id),
        container.sessions.page(bob, at[1], Filters()),
        container.sessions.create(bob, at[1], SessionDraft(("p",), deduplication_key="k")),
        container.spaces.get(bob, at[1]),
        container.runs.page(bob, at[1], made.id),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert (await container.sessions.recent(bob, at[1], participant="p", prefix="//", limit=5)).items == []
    assert await container.sessions.get(*at, made.id) == made

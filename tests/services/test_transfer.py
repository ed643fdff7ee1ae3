"""What is exported from one database and imported into another is the same there, whatever the engines."""

import json
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.passing_time import work_at
from threadkeep import clock
from threadkeep.domain.event import EventDraft
from threadkeep.domain.lifecycle import Strategy
from threadkeep.domain.principal import Principal
from threadkeep.domain.session import SessionChange, SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.errors import EventLookupConflict, Invalid, NotFound
from threadkeep.services import transfer
from threadkeep.services.container import Container
from threadkeep.services.extraction import Extractions
from threadkeep.services.sessions import Filters
from threadkeep.services.transfer import Moved
from threadkeep.settings import Settings
from threadkeep.testing.models import OneModel, ScriptedModel
from threadkeep.workers.runner import model_runner_of

ODD = "\0 \ud800 \U0010f801 ÄÖ/ß"


@pytest.fixture
async def other(tmp_path: Path, sqlite_template: Path) -> AsyncIterator[Container]:
    """A second, empty database: SQLite, so that with the first one all ways over are taken."""
    path = tmp_path / "other.db"
    shutil.copy(sqlite_template, path)
    opened = await Container.open(Settings(database=f"sqlite:///{path}"))
    try:
        yield opened
    finally:
        await opened.close()


async def filled(container: Container) -> tuple[Principal, str, list[str]]:
    """A space with three sessions: one of all kinds of text, one with gaps, one without events."""
    principal = await container.tokens.local_principal("operator")
    space = await container.spaces.create(principal, SpaceDraft(ODD, deduplication_key="the space"))
    drafts = [
        SessionDraft(
            ("ann", ODD),
            f"//thread/{ODD}/",
            '{"b":1.50,"a":"\\u0000"}',
            (Strategy("soft_delete", "eventCount", 9, None),),
            ODD,
        ),
        SessionDraft(("bob",), "//thread/2/", '{"archived":true}'),
        SessionDraft(("ann", "bob")),
    ]
    made = [await container.sessions.create(principal, space.id, draft) for draft in drafts]
    event = EventDraft('{"content":"x","n":1.50}', "x", "message", "user", "ann", None, ("k", ODD))
    body = '{"content":"\\u0000\\ud800","z":1}'
    others = [
        replace(event, body=body, content="\0\ud800", type=ODD),
        replace(event, emitter_id=ODD, type=None, lookup_keys=("alone",)),
    ]
    await container.events.append_batch(principal, space.id, made[0].id, [event, *others])
    await container.events.append_batch(
        principal, space.id, made[1].id, [replace(event, emitter_id="bob", lookup_keys=())] * 4
    )
    for number in (2, 4):
        await container.events.delete(principal, space.id, made[1].id, number)
    await container.sessions.patch(principal, space.id, made[2].id, SessionChange(metadata='{"version":2}'))
    return principal, space.id, [session.id for session in made]


async def exported(container: Container, space_id: str | None = None, participant: str | None = None) -> list[str]:
    return [line async for line in container.transfer.export(space_id, participant)]


async def seen(container: Container, principal: Principal, space_id: str) -> object:
    """All that the services tell of a space."""
    sessions, total = await container.sessions.page(principal, space_id, Filters())
    events = [await container.events.page(principal, space_id, session.id) for session in sessions]
    return await container.spaces.get(principal, space_id), sessions, total, events


@pytest.fixture(params=["out of it", "into it"])
def way(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "into it")


async def test_what_is_brought_over_is_the_same(container: Container, other: Container, way: bool) -> None:
    source, target = (other, container) if way else (container, other)
    principal, space_id, (odd, gaps, _) = await filled(source)

    moved = await target.transfer.bring(await exported(source))

    assert moved == Moved(spaces=1, sessions=3, events=5)
    assert await target.tokens.local_principal("operator") == principal
    assert await seen(target, principal, space_id) == await seen(source, principal, space_id)
    assert await exported(target) == await exported(source)
    found, total = await target.sessions.page(principal, space_id, Filters(needle="//THREAD/"))
    assert ([session.id for session in found], total) == ([odd, gaps], 2)
    recent = await target.sessions.recent(principal, space_id, participant="bob", prefix="//thread/")
    assert [(item.session.id, item.last_event and item.last_event.sequence_id) for item in recent.items] == [(gaps, 3)]
    listed = await target.sessions.recent(principal, space_id, participant="bob", prefix="//", with_archived=False)
    assert listed.items == []
    (event,) = await target.events.append(
        principal, space_id, gaps, [EventDraft('{"content":"x"}', "x", None, "user", "bob")]
    )
    assert event.sequence_id == 5
    found, total = await target.space_events.having(principal, space_id, ["k", ODD, "alone"])
    assert [(at, event.sequence_id, event.type) for at, event in found] == [
        (odd, 1, "message"),
        (odd, 2, ODD),
        (odd, 3, None),
    ]
    with pytest.raises(EventLookupConflict):
        await target.events.append(
            principal, space_id, gaps, [EventDraft("{}", None, ODD, "agent", None, None, (ODD,))]
        )


async def test_a_strategy_goes_on_where_it_was(container: Container, other: Container) -> None:
    principal, space_id, (odd, *_) = await filled(container)
    await other.transfer.bring(await exported(container))

    await other.events.append_batch(
        principal, space_id, odd, [EventDraft('{"content":"x"}', "x", None, "user", "ann")] * 6
    )

    due = await other.jobs.claim("worker", ["lifecycle"], clock.now(), limit=10)
    assert [job.session_id for job in due] == [odd]


async def test_what_is_there_is_skipped_and_what_was_stopped_goes_on(
    container: Container, other: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "_STEP", 1)
    principal, space_id, (odd, gaps, _) = await filled(container)
    lines = await exported(container)
    cut = next(n for n, line in enumerate(lines) if '"seq":3' in line and f'"{gaps}"' not in line and n > 8)

    with pytest.raises(Invalid, match="cut off"):
        await other.transfer.bring(lines[:cut])
    with pytest.raises(NotFound):
        await other.events.page(principal, space_id, gaps)
    assert (await other.events.page(principal, space_id, odd))[1] == 3

    assert await other.transfer.bring(lines) == Moved(spaces=1, sessions=2, events=2, skipped=1)
    assert await seen(other, principal, space_id) == await seen(container, principal, space_id)


async def test_one_space_and_one_participant(container: Container) -> None:
    principal, space_id, (odd, _, empty) = await filled(container)
    await container.spaces.create(principal, SpaceDraft("another"))

    lines = [json.loads(line) for line in await exported(container, space_id, "ann")]

    assert [line["session"]["session_id"] for line in lines if "session" in line] == [odd, empty]
    assert [line["space"]["space_id"] for line in lines if "space" in line] == [space_id]
    assert await container.transfer.count(space_id, "ann") == 2
    with pytest.raises(NotFound, match="There is no memory space"):
        await exported(container, "01890000-0000-7000-8000-000000000000")


async def test_another_user_may_own_it(container: Container, other: Container) -> None:
    _, space_id, _ = await filled(container)

    await other.transfer.bring(await exported(container), user="zoe")

    zoe = await other.tokens.local_principal("zoe")
    assert (await other.spaces.get(zoe, space_id)).user_id == zoe.user_id


def swap(old: str, new: str) -> Callable[[list[str]], list[str]]:
    def change(lines: list[str]) -> list[str]:
        at = next(n for n, line in enumerate(lines) if old in line)
        return [*lines[:at], lines[at].replace(old, new, 1), *lines[at + 1 :]]

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda lines: ["hello\n"], "Line 1: the line is not JSON"),
        (lambda lines: ['{"format":"threadkeep","version":2}\n'], "Line 1: this is no export that is known here"),
        (lambda lines: [], "cut off"),
        (lambda lines: lines[:-1], "cut off"),
        (lambda lines: [lines[0], *lines[4:]], "Line 2: 'job' does not belong here"),
        (swap('"seq":2,', ""), r"Line \d+: event has no 'seq'"),
        (swap('"seq":2,', '"seq":2,"more":1,'), "event has an unknown 'more'"),
        (swap('"seq":2,', '"seq":"2",'), "'seq' of event is not a whole number"),
        (swap('"seq":2,', '"seq":1,'), "the event 1 is out of order"),
        (swap('"seq":3,', '"seq":9,'), "beyond the last number"),
        (swap('"emitter_type":"user"', '"emitter_type":null'), "'emitter_type' of event is null"),
        (swap('"body":"{', '"body":"['), "body is not JSON"),
        (swap('"participants":"[', '"participants":"{'), "participants is not JSON"),
        (swap('"strategies":"[', '"strategies":"x['), "'strategies' are not what an export has"),
        (swap('"events":3', '"events":2'), r"events are missing: there are 3 of the session of line \d+"),
        (swap('"message"', '"\\ud800"'), "'type' of event is not a text that a database holds"),
        (swap('"lookup_keys":"[', '"lookup_keys":"x['), "lookup_keys is not JSON"),
        (swap('"lookup_keys":"[\\"k\\"', '"lookup_keys":"[7'), "'lookup_keys' are not what an export has"),
        (swap('"lookup_keys":"[\\"k\\"', '"lookup_keys":"[ \\"k\\"'), "'lookup_keys' are not what an export has"),
        (swap('"lookup_keys":"[\\"k\\"', '"lookup_keys":"[\\"\\"'), "'lookup_keys' are not what an export has"),
        (swap('"lookup_keys":"[', '"lookup_keys":"[\\"k\\",'), "'lookup_keys' are not what an export has"),
        (
            lambda lines: swap('"type":null', '"type":"message"')(swap('"alone', '"k')(lines)),
            r"a second event of its type with the lookup key 'k' in one session",
        ),
    ],
)
async def test_a_file_that_is_wrong_is_refused_by_its_line(
    container: Container, other: Container, change: Callable[[list[str]], list[str]], problem: str
) -> None:
    await filled(container)
    with pytest.raises(Invalid, match=problem):
        await other.transfer.bring(change(await exported(container)))


async def test_a_key_that_is_taken_here_is_named(container: Container, other: Container) -> None:
    await filled(container)
    await other.tokens.local_principal("operator")
    lines = await exported(container)
    principal = await other.tokens.local_principal("operator")
    await other.spaces.create(principal, SpaceDraft(deduplication_key="the space"))

    with pytest.raises(Invalid, match=r"Line 3: the deduplication key 'the space' is that of the memory space"):
        await other.transfer.bring(lines)


async def test_a_lookup_key_that_is_taken_here_is_named(container: Container, other: Container) -> None:
    principal, space_id, (odd, *_) = await filled(container)
    lines = await exported(container)
    first = next(n for n, line in enumerate(lines) if line.startswith('{"session"'))
    await other.transfer.bring([*lines[:first], lines[-1]])
    here = await other.sessions.create(principal, space_id, SessionDraft(("ann",)))
    await other.events.append(
        principal, space_id, here.id, [EventDraft("{}", None, "message", "agent", None, None, ("k",))]
    )

    with pytest.raises(
        Invalid, match=rf"Line \d+: the lookup key 'k' is that of the event 1 of session {here.id} here"
    ):
        await other.transfer.bring(lines)

    await other.sessions.delete(principal, space_id, here.id)
    assert (await other.transfer.bring(lines)).sessions == 3
    found, _ = await other.space_events.having(principal, space_id, ["k"], event_type="message")
    assert [(at, event.sequence_id) for at, event in found] == [(odd, 1)]


@pytest.mark.parametrize("lines", [["hello"], ['{"a":1}\n'], ['{"format":"threadkeep","version":1}\n', "{}\n"]])
def test_what_is_no_export_is_not_gone_on_with(lines: list[str]) -> None:
    with pytest.raises(Invalid, match=r"Line \d: "):
        transfer.last_whole(lines)


async def test_two_sessions_whose_ids_end_alike_are_told_apart_on_sqlite(
    container: Container, other: Container
) -> None:
    """Ids that are made here never do; the file's may, and its sessions are to be found all the same."""
    _, _, (first, second, _) = await filled(container)
    lines = [line.replace(second, second[:19] + first[19:]) for line in await exported(container)]

    with pytest.raises(Invalid, match=r"Line \d+: the id of the session ends like that of another one here"):
        await other.transfer.bring(lines)


def test_how_far_a_stopped_export_came() -> None:
    lines = ['{"format":"threadkeep","version":1}\n']
    space, session = "01890000-0000-7000-8000-00000000000a", "01890000-0000-7000-8000-00000000000b"
    end = f'{{"end":{{"space_id":"{space}","session_id":"{session}","events":0}}}}\n'
    stopped = transfer.Stopped(space, session)

    assert transfer.last_whole([]) == (None, 0, False)
    assert transfer.last_whole(['{"format":"thr']) == (None, 0, False)
    assert transfer.last_whole(lines) == (None, 0, False)
    assert transfer.last_whole([*lines, end, '{"session":']) == (stopped, 2, False)
    assert transfer.last_whole([*lines, end, '{"done":{}}\n']) == (stopped, 3, True)


@pytest.mark.parametrize(("strategy", "deletes"), [("{}", True), ('{"softDelete":false}', False)])
async def test_an_extraction_that_waits_goes_along_and_is_carried_out_there(
    container: Container, other: Container, strategy: str, deletes: bool
) -> None:
    principal = await container.tokens.local_principal("operator")
    space = (await container.spaces.create(principal, SpaceDraft())).id
    wanted = (Strategy("extract_memories", "eventCount", 1, strategy), Strategy("soft_delete", "ttl", 10**7))
    session = (await container.sessions.create(principal, space, SessionDraft(("ann",), strategies=wanted))).id
    await container.events.append(
        principal, space, session, [EventDraft('{"content":"I like tea"}', "I like tea", "message", "user", "ann")]
    )
    await work_at(container, clock.now())

    await other.transfer.bring(await exported(container))

    owner = await other.tokens.local_principal("operator")
    assert (await other.extractions.state(owner, space, session)).state == "pending"
    tea = {"memories": [{"text": "Likes tea", "sources": [1], "categories": []}]}
    there = replace(other, models=OneModel(ScriptedModel()))
    extractions = Extractions(other.database, other.jobs, other.memories.candidates, OneModel(ScriptedModel([tea])))
    await model_runner_of(replace(there, extractions=extractions)).run_due(clock.now())
    stands = await other.extractions.state(owner, space, session)
    assert (stands.state, stands.found, stands.read_to) == ("extracted", 1, 1)
    _, live = await other.sessions.page(owner, space, Filters())
    assert live == (0 if deletes else 1)

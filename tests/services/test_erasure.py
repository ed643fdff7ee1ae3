"""A person is removed for good, and nobody else is touched."""

from dataclasses import replace

import pytest

from threadkeep import clock
from threadkeep.domain.event import EventDraft
from threadkeep.domain.principal import Principal
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.errors import BadRequest, Invalid, NotFound
from threadkeep.services import erasure as service
from threadkeep.services.container import Container
from threadkeep.services.erasure import Erased
from threadkeep.services.sessions import Filters
from threadkeep.storage import erasure as stored
from threadkeep.storage import purge
from threadkeep.storage.statement import Statement, Steps
from threadkeep.storage.tables import metadata


def said(person: str, content: str) -> EventDraft:
    return EventDraft(f'{{"content":"{content}"}}', content, "message", "user", person)


def answered(content: str) -> EventDraft:
    return replace(said("", content), emitter_type="agent", emitter_id=None)


async def a_space(container: Container, user: str) -> tuple[Principal, str]:
    principal = await container.tokens.local_principal(user)
    return principal, (await container.spaces.create(principal, SpaceDraft())).id


async def everything(container: Container) -> str:
    """All that the database holds, as text."""

    def operation() -> Steps[str]:
        held = []
        for table in metadata.sorted_tables:
            held += [repr(tuple(row)) for row in (yield Statement(table.select()), {})]
        return "\n".join(held)

    return await container.database.scan(operation)


async def test_sessions_of_their_own_go_and_shared_ones_go_on_without_them(container: Container) -> None:
    principal, space = await a_space(container, "operator")
    alone = await container.sessions.create(principal, space, SessionDraft(("bob-7",), "//thread/of-bob/"))
    gone = await container.sessions.create(principal, space, SessionDraft(("bob-7",), "//thread/deleted/"))
    shared = await container.sessions.create(principal, space, SessionDraft(("ann", "bob-7"), "//thread/shared/"))
    others = await container.sessions.create(principal, space, SessionDraft(("ann", "bob-77"), "//thread/other/"))
    for session in (alone, gone, shared):
        keys = (f"{session.id} mine",)
        drafts = [
            replace(said("bob-7", "mine"), lookup_keys=keys),
            replace(answered("yours"), lookup_keys=(session.id,)),
        ]
        await container.events.append(principal, space, session.id, drafts)
    await container.events.append(principal, space, shared.id, [said("ann", "hers")])
    await container.events.append(principal, space, others.id, [said("bob-77", "another")])
    await container.sessions.delete(principal, space, gone.id)

    assert await container.erasure.find("bob-7") == Erased(sessions=2, shared=1)
    assert await container.erasure.erase("bob-7") == Erased(sessions=2, shared=1, events=5)

    held = await everything(container)
    assert "mine" not in held
    assert "'bob-7'" not in held
    assert '"bob-7"' not in held
    for session in (alone, gone):
        assert session.id not in held
    events, total = await container.events.page(principal, space, shared.id)
    assert [(event.sequence_id, event.body) for event in events] == [
        (2, '{"content":"yours"}'),
        (3, '{"content":"hers"}'),
    ]
    assert total == 2
    (event,) = await container.events.append(principal, space, shared.id, [said("ann", "more")])
    assert event.sequence_id == 4
    kept, _ = await container.space_events.having(principal, space, [shared.id, f"{shared.id} mine"])
    assert [event.sequence_id for _, event in kept] == [2]
    found, _ = await container.sessions.page(principal, space, Filters(("ann",)))
    assert [session.participants for session in found] == [("ann",), ("ann", "bob-77")]
    assert await container.sessions.page(principal, space, Filters(needle="of-bob")) == ([], 0)
    assert await container.erasure.erase("bob-7") == Erased()


async def test_no_run_of_a_shared_session_keeps_what_they_said(container: Container) -> None:
    principal, space = await a_space(container, "operator")
    shared = await container.sessions.create(principal, space, SessionDraft(("ann", "bob-7")))
    others = await container.sessions.create(principal, space, SessionDraft(("ann",)))
    for session, said in ((shared, "what bob said"), (others, "what ann said")):
        for run_id in ("ended", "active"):
            run = await container.runs.begin(
                *(principal, space, session.id),
                run_id=run_id,
                parent_run_id=None,
                owner="o",
                lease_seconds=60,
                input=f'{{"messages":["{said}"]}}',
            )
            if run_id == "ended":
                await container.runs.finish(run, status="finished", events=[f"snapshot of {said}".encode()], first=0)

    assert await container.erasure.erase("bob-7") == Erased(shared=1)

    held = await everything(container)
    assert "what bob said" not in held
    assert held.count("what ann said") == 3
    assert [run.status for run in await container.runs.page(principal, space, shared.id)] == ["active", "finished"]


async def test_the_spaces_and_tokens_of_a_user_go(container: Container) -> None:
    principal, space = await a_space(container, "bob")
    _, kept = await a_space(container, "ann")
    session = await container.sessions.create(principal, space, SessionDraft(("x",)))
    await container.events.append(principal, space, session.id, [said("x", "inside")])
    await container.tokens.create(user="bob", name="a token")

    assert await container.erasure.erase(principal.user_id) == Erased(spaces=1, tokens=1)

    held = await everything(container)
    assert principal.user_id not in held
    assert "inside" not in held
    assert kept in held
    with pytest.raises(NotFound):
        await container.spaces.get(principal, space)


async def test_a_server_believes_what_it_knows_of_participants_for_ten_seconds(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    principal, space = await a_space(container, "operator")
    session = await container.sessions.create(principal, space, SessionDraft(("bob", "ann")))
    at = (principal, space, session.id)
    await container.events.append(*at, [said("bob", "x")])

    await container.erasure.erase("bob")

    later = clock.now() + 10_000_001
    monkeypatch.setattr(clock, "now", lambda: later)
    with pytest.raises(BadRequest):
        await container.events.append(*at, [said("bob", "y")])
    assert len(await container.events.append(*at, [said("ann", "z")])) == 1


async def test_nothing_is_appended_to_a_session_that_is_being_removed(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "ROWS", 3)
    principal, space = await a_space(container, "operator")
    session = await container.sessions.create(principal, space, SessionDraft(("bob",)))
    await container.events.append_batch(principal, space, session.id, [said("bob", "x")] * 7)

    assert not await container.database.write(lambda: stored.remove_session(space, session.id, 1))

    with pytest.raises(NotFound):
        await container.events.append(principal, space, session.id, [said("bob", "late")])


async def test_many_events_go_a_few_at_a_time_and_what_was_stopped_goes_on(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_PAGE", 2)
    monkeypatch.setattr(purge, "ROWS", 3)
    principal, space = await a_space(container, "operator")
    for people in (("bob",), ("bob", "ann"), ("bob",)):
        session = await container.sessions.create(principal, space, SessionDraft(people))
        await container.events.append_batch(principal, space, session.id, [said("bob", "x")] * 7)

    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        await container.erasure.erase("bob", stop)

    assert await container.erasure.erase("bob") == Erased(sessions=1, shared=1, events=14)
    assert "bob" not in await everything(container)


@pytest.mark.parametrize("person", [", ", 'say "bob"', "50%_\\", "\0\ud800", "ü"])
async def test_a_name_is_itself_and_no_pattern(container: Container, person: str) -> None:
    principal, space = await a_space(container, "operator")
    await container.sessions.create(principal, space, SessionDraft((person, "ann")))
    await container.sessions.create(principal, space, SessionDraft(("bob", "ann", "50xy\\")))

    assert await container.erasure.erase(person) == Erased(shared=1)

    found, _ = await container.sessions.page(principal, space, Filters())
    assert [session.participants for session in found] == [("ann",), ("bob", "ann", "50xy\\")]


async def test_a_name_has_a_length(container: Container) -> None:
    with pytest.raises(Invalid, match="129 characters; the limit is 128"):
        await container.erasure.erase("x" * 129)

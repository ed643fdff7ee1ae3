"""Tokens, on both engines."""

import asyncio
from typing import Any

import pytest

from threadkeep import clock
from threadkeep.errors import Invalid, NotFound, Unauthorized, Unavailable
from threadkeep.services.container import Container
from threadkeep.storage import tokens as stored


async def test_bearer_and_token_are_the_same(container: Container) -> None:
    token, secret = await container.tokens.create(user="alice", name="laptop")

    by_bearer = await container.tokens.authenticate(f"Bearer {secret}")
    by_token = await container.tokens.authenticate(f"token {secret}")

    assert by_bearer == by_token
    assert (by_bearer.user_id, by_bearer.token_id) == (token.user_id, token.id)
    assert by_bearer.user_id == (await container.tokens.local_principal("alice")).user_id


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic abc", "Bearer unknown", "Bearer \0\ud83d"])
async def test_what_is_no_known_token_is_refused(container: Container, header: str | None) -> None:
    with pytest.raises(Unauthorized):
        await container.tokens.authenticate(header)


async def test_the_secret_is_not_kept(container: Container, database: str) -> None:
    _, secret = await container.tokens.create(user="alice", name="laptop")

    listed = await container.tokens.all()

    assert [token.name for token in listed] == ["laptop"]
    assert secret.removeprefix("tk_") not in repr(listed)


async def test_a_revoked_token_is_refused_at_once_in_this_process(container: Container) -> None:
    token, secret = await container.tokens.create(user="alice", name="laptop")
    await container.tokens.authenticate(f"Bearer {secret}")

    await container.tokens.revoke(token.id)

    with pytest.raises(Unauthorized, match="revoked"):
        await container.tokens.authenticate(f"Bearer {secret}")
    with pytest.raises(NotFound):
        await container.tokens.revoke(token.id)
    assert not await container.tokens.any_live()


async def test_an_expired_token_is_refused(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    _, secret = await container.tokens.create(user="alice", name="short", expires_in=60)
    await container.tokens.authenticate(f"Bearer {secret}")
    later = clock.now() + 60_000_000
    monkeypatch.setattr(clock, "now", lambda: later)

    with pytest.raises(Unauthorized, match="expired"):
        await container.tokens.authenticate(f"Bearer {secret}")


async def test_acting_for_others_needs_the_right(container: Container) -> None:
    _, plain = await container.tokens.create(user="alice", name="plain")
    _, acting = await container.tokens.create(user="alice", name="acting", may_act_for=True)

    with pytest.raises(Unauthorized, match="--act-for"):
        await container.tokens.authenticate(f"Bearer {plain}", "ann")
    with pytest.raises(Invalid):
        await container.tokens.authenticate(f"Bearer {acting}", "")
    ann = await container.tokens.authenticate(f"Bearer {acting}", "ann")
    bob = await container.tokens.authenticate(f"Bearer {acting}", "bob")

    assert ann == await container.tokens.authenticate(f"Bearer {acting}", "ann")
    assert len({ann.user_id, bob.user_id, (await container.tokens.local_principal("alice")).user_id}) == 3
    assert not ann.may_act_for


async def test_the_operators_own_secret_is_made_once(container: Container) -> None:
    await container.tokens.ensure("my own secret")
    await container.tokens.ensure("my own secret")

    assert len(await container.tokens.all()) == 1
    await container.tokens.authenticate("Bearer my own secret")


async def test_a_token_is_for_what_its_scopes_say_and_for_all_without_them(container: Container) -> None:
    _, reading = await container.tokens.create(user="alice", name="reading", scopes=["read"])
    _, whole = await container.tokens.create(user="alice", name="whole")

    assert (await container.tokens.authenticate(f"Bearer {reading}")).scopes == {"read"}
    assert (await container.tokens.authenticate(f"Bearer {whole}")).scopes == {"read", "write"}
    assert [token.scopes for token in await container.tokens.all()] == [{"read"}, {"read", "write"}]
    for nonsense in ([], ["all"], ["read", "fly"]):
        with pytest.raises(Invalid, match="A scope is one of read, write"):
            await container.tokens.create(user="alice", name="x", scopes=nonsense)


async def test_a_token_is_believed_as_it_was_while_the_database_gives_no_answer(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, secret = await container.tokens.create(user="alice", name="laptop", expires_in=400)
    _, other = await container.tokens.create(user="alice", name="never seen")
    start = clock.now()
    monkeypatch.setattr(clock, "now", lambda: start)
    known = await container.tokens.authenticate(f"Bearer {secret}")
    read = container.database.read

    async def away(_: object) -> None:
        raise Unavailable("The database gives no answer")

    monkeypatch.setattr(container.database, "read", away)
    monkeypatch.setattr(clock, "now", lambda: start + 399_000_000)
    assert await container.tokens.authenticate(f"Bearer {secret}") == known
    with pytest.raises(Unavailable):
        await container.tokens.authenticate(f"Bearer {other}")
    monkeypatch.setattr(clock, "now", lambda: start + 400_000_000)
    with pytest.raises(Unauthorized, match="expired"):
        await container.tokens.authenticate(f"Bearer {secret}")

    # Another process revokes it; what the database says counts as soon as it says something.
    monkeypatch.setattr(clock, "now", lambda: start + 399_000_000)
    await container.database.write(lambda: stored.revoke(token.id, start))
    assert await container.tokens.authenticate(f"Bearer {secret}") == known
    monkeypatch.setattr(container.database, "read", read)
    with pytest.raises(Unauthorized, match="revoked"):
        await container.tokens.authenticate(f"Bearer {secret}")


async def test_no_token_is_believed_for_longer_than_ten_minutes_without_a_database(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = await container.tokens.create(user="alice", name="laptop")
    start = clock.now()
    monkeypatch.setattr(clock, "now", lambda: start)
    known = await container.tokens.authenticate(f"Bearer {secret}")

    async def away(_: object) -> None:
        raise Unavailable("The database gives no answer")

    monkeypatch.setattr(container.database, "read", away)
    monkeypatch.setattr(clock, "now", lambda: start + 600_000_000)
    assert await container.tokens.authenticate(f"Bearer {secret}") == known
    monkeypatch.setattr(clock, "now", lambda: start + 600_000_001)
    with pytest.raises(Unavailable):
        await container.tokens.authenticate(f"Bearer {secret}")


async def test_a_database_that_hangs_is_asked_once_and_not_waited_for(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadkeep.services.tokens._PATIENCE_SECONDS", 0.01)
    token, secret = await container.tokens.create(user="alice", name="laptop")
    start = clock.now()
    monkeypatch.setattr(clock, "now", lambda: start)
    known = await container.tokens.authenticate(f"Bearer {secret}")
    read, asked, answers = container.database.read, [], asyncio.Event()

    async def slow(operation: Any) -> Any:
        asked.append(operation)
        await answers.wait()
        return await read(operation)

    monkeypatch.setattr(container.database, "read", slow)
    monkeypatch.setattr(clock, "now", lambda: start + 3_000_000)
    for _ in range(3):
        assert await container.tokens.authenticate(f"Bearer {secret}") == known
    assert len(asked) == 1
    await container.database.write(lambda: stored.revoke(token.id, start))
    answers.set()
    monkeypatch.setattr("threadkeep.services.tokens._PATIENCE_SECONDS", 60)
    with pytest.raises(Unauthorized, match="revoked"):
        await container.tokens.authenticate(f"Bearer {secret}")


async def last_use(container: Container) -> int | None:
    """What is stored of the only token's use, when all is written."""
    await container.tokens.close()
    (token,) = await container.tokens.all()
    return token.last_used_at


async def test_a_use_is_noted_once_a_minute(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    _, secret = await container.tokens.create(user="alice", name="laptop")
    start = clock.now()
    noted = []
    for seconds in (0, 5, 59, 62, 100, 123):
        monkeypatch.setattr(clock, "now", lambda at=start + seconds * 1_000_000: at)
        await container.tokens.authenticate(f"Bearer {secret}")
        noted.append(await last_use(container))

    assert [at - start for at in noted if at is not None] == [0, 0, 0, 62_000_000, 62_000_000, 123_000_000]


async def test_a_use_that_another_process_noted_is_not_noted_again(
    container: Container, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = await container.tokens.create(user="alice", name="laptop")
    other = await Container.open(container.settings)
    try:
        start = clock.now()
        monkeypatch.setattr(clock, "now", lambda: start)
        await container.tokens.authenticate(f"Bearer {secret}")
        assert await last_use(container) == start
        monkeypatch.setattr(clock, "now", lambda: start + 30_000_000)
        await other.tokens.authenticate(f"Bearer {secret}")
        assert await last_use(other) == start
    finally:
        await other.close()


async def test_a_refused_token_is_not_in_use(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    _, secret = await container.tokens.create(user="alice", name="short", expires_in=60)
    later = clock.now() + 60_000_000
    monkeypatch.setattr(clock, "now", lambda: later)

    with pytest.raises(Unauthorized):
        await container.tokens.authenticate(f"Bearer {secret}")
    assert await last_use(container) is None


async def test_a_use_that_cannot_be_noted_fails_no_request(
    container: Container, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    token, secret = await container.tokens.create(user="alice", name="laptop")

    async def broken(*_: object) -> None:
        raise Unavailable("The database gives no answer: a full disk")

    monkeypatch.setattr(type(container.database), "write", broken)
    assert (await container.tokens.authenticate(f"Bearer {secret}")).token_id == token.id
    assert await last_use(container) is None
    assert caplog.messages == [f"could not note the use of token {token.id}: Unavailable"]

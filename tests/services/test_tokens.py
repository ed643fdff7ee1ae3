"""Tokens, on both engines."""

import pytest

from threadkeep import clock
from threadkeep.errors import Invalid, NotFound, Unauthorized
from threadkeep.services.container import Container


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

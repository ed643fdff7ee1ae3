"""Tokens: how long they live, and which of their uses are worth writing down."""

import pytest

from threadkeep.domain.token import Token, digest, is_use_due, new_secret

NOW = 1_796_000_000_000_000
MINUTE = 60_000_000


@pytest.mark.parametrize(
    ("last", "due"),
    [(None, True), (NOW, False), (NOW - MINUTE + 1, False), (NOW - MINUTE, True), (NOW + MINUTE, False)],
)
def test_one_use_stands_for_all_of_a_minute(last: int | None, due: bool) -> None:
    assert is_use_due(last, NOW) is due


@pytest.mark.parametrize(
    ("expires", "revoked", "live"),
    [(None, None, True), (NOW + 1, None, True), (NOW, None, False), (None, NOW - 1, False)],
)
def test_a_token_lives_until_it_expires_or_is_revoked(expires: int | None, revoked: int | None, live: bool) -> None:
    token = Token("t", "name", "u", "n", False, NOW - MINUTE, expires, revoked)

    assert token.is_live(NOW) is live


def test_a_secret_is_known_by_its_prefix_and_kept_as_a_digest() -> None:
    first, second = new_secret(), new_secret()

    assert first != second
    assert first.startswith("tk_")
    assert digest(first) == digest(first) != digest(second)
    assert len(digest(first)) == 64

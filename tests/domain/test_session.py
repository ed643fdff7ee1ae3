"""What a session's metadata says of it."""

import pytest

from threadkeep.domain.session import is_archived


@pytest.mark.parametrize("metadata", ['{"archived":true}', '{"name": "x", "archived": true}'])
def test_a_session_is_archived_where_its_metadata_says_so(metadata: str) -> None:
    assert is_archived(metadata)


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        "",
        "{}",
        '{"archived":false}',
        '{"archived":1}',
        '{"archived":"true"}',
        '{"x":{"archived":true}}',
        '["archived"]',
        '{"archived"',
    ],
)
def test_nothing_else_makes_a_session_archived(metadata: str | None) -> None:
    assert not is_archived(metadata)

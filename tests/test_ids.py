"""Identifiers."""

import uuid

from threadkeep import ids


def test_ids_are_version_7_uuids_in_the_order_of_their_making() -> None:
    made = [ids.new_id() for _ in range(10_000)]

    assert made == sorted(made)
    assert len(set(made)) == 10_000
    assert {uuid.UUID(one).version for one in made[:100]} == {7}
    assert {uuid.UUID(one).variant for one in made[:100]} == {uuid.RFC_4122}


def test_only_the_canonical_form_is_an_id() -> None:
    one = ids.new_id()

    assert ids.is_id(one)
    assert not any(map(ids.is_id, ["", one.upper(), one.replace("-", ""), f"{{{one}}}", one + "\n", "x" * 36]))


def test_a_derived_user_id_tells_its_parts_apart() -> None:
    assert ids.derived_user_id("a", "b") == ids.derived_user_id("a", "b")
    assert ids.derived_user_id("a", "bc") != ids.derived_user_id("ab", "c")
    assert len(ids.derived_user_id("a", "\ud83d")) == 24

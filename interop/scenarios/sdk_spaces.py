"""The synchronous SDK: memory spaces."""

from datetime import UTC, datetime

import pytest

from interop.names import Root


def a_space_has_what_it_was_created_with(root: Root) -> None:
    MemorySpace = root.models.MemorySpace
    space = MemorySpace.create(
        description="Support",
        llm_model_name="gpt-4o",
        llm_base_url="https://llm.example.com/v1",
        custom_instructions="Remember names.",
        deduplication_key="support-v1",
    )
    for seen in (space, MemorySpace.get(space.id), *MemorySpace.list()):
        assert seen.id == space.id
        assert len(seen.user_id) == 24
        assert len(seen.tenant_id) == 36
        assert seen.description == "Support"
        assert seen.llm_model_name == "gpt-4o"
        assert seen.llm_base_url == "https://llm.example.com/v1"
        assert seen.custom_instructions == "Remember names."
        assert seen.deduplication_key == "support-v1"
        assert isinstance(seen.created_at, datetime)
        assert seen.created_at.utcoffset() == UTC.utcoffset(None)


def a_space_without_anything_has_nothing(root: Root) -> None:
    space = root.models.MemorySpace.get(root.models.MemorySpace.create().id)
    texts = (space.description, space.llm_model_name, space.llm_base_url, space.custom_instructions)
    assert texts == (None, None, None, None)
    assert space.deduplication_key is None


def a_taken_key_leads_to_the_space_that_has_it(root: Root) -> None:
    MemorySpace = root.models.MemorySpace
    first = MemorySpace.create(deduplication_key="k")
    with pytest.raises(root.errors.MemorySpaceDeduplicationError) as raised:
        MemorySpace.create(description="second", deduplication_key="k")
    assert raised.value.status_code == 409
    assert raised.value.existing_memory_space_id == first.id
    assert raised.value.existing_memory_space_url.endswith(f"/memory/{first.id}/")
    assert isinstance(raised.value, root.errors.ClientError)
    adopted = MemorySpace.get(raised.value.existing_memory_space_id)
    assert adopted.description is None
    adopted.delete()
    assert MemorySpace.create(deduplication_key="k").id != first.id
    MemorySpace.create()
    MemorySpace.create()


def spaces_are_listed_newest_first_by_page_and_by_key(root: Root) -> None:
    MemorySpace = root.models.MemorySpace
    for number in range(5):
        MemorySpace.create(description=f"{number}", deduplication_key=f"key-{number}")

    def listed(**arguments: object) -> list[str]:
        return [space.description for space in MemorySpace.list(**arguments)]

    assert listed() == ["4", "3", "2", "1", "0"]
    assert listed(limit=2) == ["4", "3"]
    assert listed(offset=3) == ["1", "0"]
    assert listed(offset=1, limit=2) == ["3", "2"]
    assert listed(deduplication_key="key-2") == ["2"]
    assert listed(deduplication_key="key") == []
    with pytest.raises(root.errors.ClientError) as raised:
        MemorySpace.list(limit=0)
    assert raised.value.status_code == 422


def a_space_is_updated_field_by_field_and_cleared_by_none(root: Root) -> None:
    space = root.models.MemorySpace.create(
        description="a", llm_model_name="b", llm_base_url="https://c.example.com", custom_instructions="d"
    )
    space.update()
    space.update(description="A")
    assert (space.description, space.llm_model_name) == ("A", "b")
    space.update(llm_model_name=None, llm_base_url=None)
    space.update(custom_instructions="D")
    seen = root.models.MemorySpace.get(space.id)
    assert (seen.description, seen.llm_model_name, seen.llm_base_url) == ("A", None, None)
    assert seen.custom_instructions == space.custom_instructions == "D"


def a_deleted_space_is_gone_with_its_sessions(root: Root) -> None:
    MemorySpace, Session = root.models.MemorySpace, root.models.Session
    space = MemorySpace.create(description="doomed")
    session = Session.create(space.id, participants=["ann"])
    space.delete()
    for call in (
        lambda: MemorySpace.get(space.id),
        lambda: space.update(description="x"),
        lambda: space.delete(),
        lambda: Session.get(space.id, session.id),
        lambda: Session.list(space.id),
        lambda: session.events(),
    ):
        with pytest.raises(root.errors.ClientError) as raised:
            call()
        assert raised.value.status_code == 404
    assert MemorySpace.list() == []


def limits_of_a_space_are_refused(root: Root) -> None:
    for fields in (
        {"description": "x" * 1_001},
        {"llm_model_name": "x" * 201},
        {"llm_base_url": "https://x.example.com/" + "x" * 2_083},
        {"custom_instructions": "x" * 10_001},
        {"deduplication_key": ""},
        {"deduplication_key": "x" * 73},
    ):
        with pytest.raises(root.errors.ClientError) as raised:
            root.models.MemorySpace.create(**fields)
        assert raised.value.status_code == 422
    assert root.models.MemorySpace.list() == []
    root.models.MemorySpace.create(
        description="x" * 1_000, llm_model_name="x" * 200, custom_instructions="x" * 10_000, deduplication_key="x" * 72
    )


SCENARIOS = (
    a_space_has_what_it_was_created_with,
    a_space_without_anything_has_nothing,
    a_taken_key_leads_to_the_space_that_has_it,
    spaces_are_listed_newest_first_by_page_and_by_key,
    a_space_is_updated_field_by_field_and_cleared_by_none,
    a_deleted_space_is_gone_with_its_sessions,
    limits_of_a_space_are_refused,
)

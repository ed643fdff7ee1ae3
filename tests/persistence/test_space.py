"""Spaces, on the real service."""

import pytest

from threadkeep.persistence import (
    DRMemoryNotFoundError,
    DRMemoryServiceClient,
    DRMemorySpace,
    DRMemoryValidationError,
)


async def test_a_space_is_created_read_changed_and_deleted(client: DRMemoryServiceClient) -> None:
    space = await DRMemorySpace.post(
        client,
        description="d\x00\ud83d",
        deduplication_key="k+1",
        llm_model_name="m",
        llm_base_url="http://llm.test",
        custom_instructions="c",
    )
    again = await DRMemorySpace.get(client, space.id)
    assert (again.id, again.description, again.deduplication_key) == (space.id, "d\x00\ud83d", "k+1")
    assert (again.llm_model_name, again.llm_base_url, again.custom_instructions) == ("m", "http://llm.test", "c")
    assert len(again.user_id) == 24
    assert again.created_at.tzinfo is not None
    assert [found.id for found in await DRMemorySpace.list(client, deduplication_key="k+1")] == [space.id]

    assert await again.patch(description=None, llm_model_name="n") is again
    assert (again.description, again.llm_model_name, again.custom_instructions) == (None, "n", "c")
    assert (await DRMemorySpace.get(client, space.id)).description is None

    await again.delete()
    with pytest.raises(DRMemoryNotFoundError):
        await space.patch(description="x")
    assert await DRMemorySpace.list(client) == []


async def test_the_same_key_adopts_the_space_as_it_is(client: DRMemoryServiceClient) -> None:
    first = await DRMemorySpace.post(client, deduplication_key="app", description="first")
    second = await DRMemorySpace.post(client, deduplication_key="app", description="second")
    assert (second.id, second.description) == (first.id, "first")
    await first.delete()
    assert (await DRMemorySpace.post(client, deduplication_key="app")).id != first.id


async def test_spaces_without_a_key_never_collide_and_come_newest_first_in_pages(client: DRMemoryServiceClient) -> None:
    made = [(await DRMemorySpace.post(client)).id for _ in range(3)]
    listed = [space.id for space in await DRMemorySpace.list(client, limit=2)]
    listed += [space.id for space in await DRMemorySpace.list(client, offset=2)]
    assert listed == made[::-1]


async def test_patching_nothing_is_refused(client: DRMemoryServiceClient) -> None:
    space = await DRMemorySpace.post(client)
    with pytest.raises(ValueError, match="at least one field"):
        await space.patch()


async def test_a_limit_out_of_range_is_refused_by_the_service(client: DRMemoryServiceClient) -> None:
    with pytest.raises(DRMemoryValidationError, match="limit"):
        await DRMemorySpace.list(client, limit=101)


@pytest.mark.parametrize("space_id", ["nope", "a/b", "..", "\ud83d", "x?y"])
async def test_an_id_that_nobody_has_is_not_found(client: DRMemoryServiceClient, space_id: str) -> None:
    with pytest.raises(DRMemoryNotFoundError):
        await DRMemorySpace.get(client, space_id)

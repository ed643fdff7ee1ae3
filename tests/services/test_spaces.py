"""Memory spaces through the services, on both engines."""

import asyncio

import pytest

from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.errors import DeduplicationConflict, Invalid, NotFound
from threadkeep.services.container import Container


async def test_a_space_comes_back_as_it_was_made(container: Container) -> None:
    alice = await container.tokens.local_principal("alice")

    made = await container.spaces.create(alice, SpaceDraft("d\0\ud83d", "m", "https://u", "be brief", "k"))

    assert await container.spaces.get(alice, made.id) == made
    assert (made.user_id, made.tenant_id) == (alice.user_id, alice.tenant_id)
    assert (made.description, made.deduplication_key) == ("d\0\ud83d", "k")


async def test_spaces_are_listed_newest_first_in_pages(container: Container) -> None:
    alice = await container.tokens.local_principal("alice")
    made = [(await container.spaces.create(alice, SpaceDraft(description=str(n)))).id for n in range(5)]

    found, total = await container.spaces.page(alice, offset=1, limit=3)

    assert [space.id for space in found] == made[::-1][1:4]
    assert total == 5


async def test_of_twenty_creates_with_one_key_exactly_one_wins(container: Container) -> None:
    alice = await container.tokens.local_principal("alice")

    answers = await asyncio.gather(
        *[container.spaces.create(alice, SpaceDraft(deduplication_key="k")) for _ in range(20)],
        return_exceptions=True,
    )

    (made,) = [answer for answer in answers if not isinstance(answer, BaseException)]
    refused = [answer for answer in answers if isinstance(answer, DeduplicationConflict)]
    assert len(refused) == 19
    assert {error.existing_id for error in refused} == {made.id}


async def test_a_key_is_the_users_own_and_free_after_a_delete(container: Container) -> None:
    alice = await container.tokens.local_principal("alice")
    bob = await container.tokens.local_principal("bob")
    first = await container.spaces.create(alice, SpaceDraft(deduplication_key="k"))
    await container.spaces.create(bob, SpaceDraft(deduplication_key="k"))

    await container.spaces.delete(alice, first.id)
    second = await container.spaces.create(alice, SpaceDraft(deduplication_key="k"))

    found, total = await container.spaces.page(alice, key="k")
    assert [space.id for space in found] == [second.id]
    assert total == 1
    assert (await container.spaces.page(alice, key="other")) == ([], 0)


async def test_no_keys_never_collide(container: Container) -> None:
    alice = await container.tokens.local_principal("alice")

    await container.spaces.create(alice, SpaceDraft())
    await container.spaces.create(alice, SpaceDraft())


async def test_a_patch_sets_clears_and_leaves(container: Container) -> None:
    alice = await container.tokens.local_principal("alice")
    made = await container.spaces.create(alice, SpaceDraft("d", "m", "u", "i", "k"))

    changed = await container.spaces.patch(alice, made.id, {"description": None, "llm_model_name": "m2"})

    assert (changed.description, changed.llm_model_name, changed.llm_base_url) == (None, "m2", "u")
    assert await container.spaces.get(alice, made.id) == changed


@pytest.mark.parametrize(
    ("draft", "place", "limit"),
    [
        (SpaceDraft(description="x" * 1_001), "description", "1,000"),
        (SpaceDraft(llm_model_name="x" * 201), "llmModelName", "200"),
        (SpaceDraft(llm_base_url="x" * 2_084), "llmBaseUrl", "2,083"),
        (SpaceDraft(custom_instructions="x" * 10_001), "customInstructions", "10,000"),
        (SpaceDraft(deduplication_key="x" * 73), "deduplicationKey", "72"),
        (SpaceDraft(deduplication_key=""), "deduplicationKey", "at least 1"),
    ],
)
async def test_a_text_over_its_limit_is_refused(
    container: Container, draft: SpaceDraft, place: str, limit: str
) -> None:
    alice = await container.tokens.local_principal("alice")

    with pytest.raises(Invalid, match=limit) as caught:
        await container.spaces.create(alice, draft)

    assert caught.value.loc == (place,)
    assert await container.spaces.page(alice) == ([], 0)


async def test_deleting_a_space_deletes_what_is_in_it(container: Container) -> None:
    alice = await container.tokens.local_principal("alice")
    space = await container.spaces.create(alice, SpaceDraft())
    session = await container.sessions.create(alice, space.id, SessionDraft(("a",)))

    await container.spaces.delete(alice, space.id)

    for gone in (
        container.spaces.get(alice, space.id),
        container.spaces.patch(alice, space.id, {"description": "x"}),
        container.spaces.delete(alice, space.id),
        container.sessions.get(alice, space.id, session.id),
        container.sessions.create(alice, space.id, SessionDraft(("a",))),
    ):
        with pytest.raises(NotFound):
            await gone
    assert await container.spaces.page(alice) == ([], 0)

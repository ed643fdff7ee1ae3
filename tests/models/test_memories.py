"""The memories of a space through the synchronous SDK, on the real service."""

import pytest

import threadkeep
from threadkeep.errors import ClientError
from threadkeep.models.memory import MemorySpace


@pytest.fixture
def space(sdk: threadkeep.Client) -> MemorySpace:
    return MemorySpace.create()


def test_memories_are_added_listed_searched_changed_and_deleted(space: MemorySpace) -> None:
    tea = space.memories.add("likes green tea", user_id="ann", metadata={"topic": "food"})
    space.memories.add("has a cat", user_id="bob", agent_id="vet")

    assert [memory.text for memory in space.memories.list()] == ["has a cat", "likes green tea"]
    assert space.memories.list(user_id="ann", filters={"metadata": {"topic": "food"}}) == [tea]
    assert [each.memory for each in space.memories.search("green tea").items] == [tea]
    assert space.memories.get(tea.id) == tea

    assert space.memories.update(tea.id, text="likes milk").text == "likes milk"
    space.memories.delete(tea.id)
    assert [line.event for line in space.memories.history(tea.id)] == ["ADD", "UPDATE", "DELETE"]
    assert [memory.text for memory in space.memories.list(page=1, page_size=5)] == ["has a cat"]


def test_a_context_holds_what_matters_for_a_prompt(space: MemorySpace) -> None:
    space.memories.add("likes green tea", user_id="ann")
    space.memories.add("has a cat", user_id="ann")

    assert space.memories.context("tea?", user_id="ann").split("\n")[2:-1] == ["- likes green tea"]
    assert space.memories.context("tea?", user_id="bob") == ""


def test_messages_are_handed_in_and_asked_for(space: MemorySpace) -> None:
    event_id = space.memories.infer([{"role": "user", "content": "I moved to Oslo"}], user_id="ann")

    assert space.memories.status(event_id)["status"] == "PENDING"


def test_what_is_wrong_is_raised_as_an_error_of_the_sdk(space: MemorySpace) -> None:
    with pytest.raises(ClientError) as refused:
        space.memories.add("x")
    assert refused.value.status_code == 400
    with pytest.raises(ClientError) as gone:
        space.memories.get("01a22a37-1f9c-7be3-a935-be3b47e3a157")
    assert gone.value.status_code == 404

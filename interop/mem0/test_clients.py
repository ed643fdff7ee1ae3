"""The published client, unchanged, does what its users do: against a server on each engine."""

from typing import Any

import httpx
import pytest
from mem0 import exceptions

from interop.mem0.conftest import VERSION, Client, Play, results
from interop.rows import Account

TALK = [{"role": "user", "content": "I like green tea"}, {"role": "assistant", "content": "Noted: green tea"}]
# The asynchronous client lets the answer to some calls through as its HTTP library raises it.
NOT_FOUND = (exceptions.MemoryNotFoundError, httpx.HTTPStatusError)
INVALID = (exceptions.ValidationError, httpx.HTTPStatusError)
NOWHERE = "01a22a37-1f9c-7be3-a935-be3b47e3a157"


async def keep(client: Client, text: str, **options: Any) -> str:
    """Keep a text as it is; gives the id."""
    added = await client.add([{"role": "user", "content": text}], infer=False, **options)
    (memory,) = results(added)
    return str(memory["id"])


def test_memories_are_kept_as_they_are_and_read(play: Play) -> None:
    async def scenario(client: Client) -> None:
        added = await client.add(TALK, user_id="alice", run_id="r", metadata={"topic": "food"}, infer=False)
        assert [memory["event"] for memory in results(added)] == ["ADD", "ADD"]

        found = await client.call("get", results(added)[0]["id"])
        assert (found["memory"], found["user_id"], found["run_id"]) == ("I like green tea", "alice", "r")
        assert found["metadata"] == {"topic": "food"}
        assert [memory["memory"] for memory in await client.get_all(user_id="alice")] == [
            "Noted: green tea",
            "I like green tea",
        ]
        assert await client.get_all(user_id="bob") == []
        assert len(await client.get_all(user_id="alice", run_id="r")) == 2

    play(scenario)


def test_an_add_that_infers_is_answered_with_an_event(play: Play) -> None:
    async def scenario(client: Client) -> None:
        added = await client.add(TALK, user_id="alice")
        event = added if "event_id" in added else results(added)[0]
        assert event["status"] == "PENDING"

        # No client asks for events by itself: their users do, over HTTP.
        told = client.http.get(f"{client.space_id}/v1/event/{event['event_id']}/").raise_for_status().json()
        listed = client.http.get(f"{client.space_id}/v1/events/").raise_for_status().json()
        assert (told["event_type"], listed["results"]) == ("ADD", [told])

    play(scenario)


def test_a_search_finds_by_words_within_the_scope(play: Play) -> None:
    async def scenario(client: Client) -> None:
        tea = await keep(client, "I like green tea", user_id="alice", metadata={"topic": "food"})
        await keep(client, "I have a cat", user_id="alice")
        await keep(client, "I like green tea", user_id="bob")

        found = await client.search("green tea", user_id="alice")
        assert [memory["id"] for memory in found] == [tea]
        assert found[0]["score"] > 0.5
        assert [memory["id"] for memory in await client.search("I", metadata={"topic": "food"}, user_id="*")] == [tea]
        if VERSION[0] == 0:
            first = await client.call("search", "green tea", user_id="alice")
            assert [memory["id"] for memory in results(first)] == [tea]

    play(scenario)


@pytest.mark.skipif(VERSION[0] != 0, reason="only 0.1 lists by the first version of the wire")
def test_the_first_version_of_the_wire_lists_by_a_query(play: Play) -> None:
    async def scenario(client: Client) -> None:
        await keep(client, "I like green tea", user_id="alice")

        listed = await client.call("get_all", user_id="alice")
        assert [memory["memory"] for memory in results(listed)] == ["I like green tea"]
        paged = await client.call("get_all", user_id="alice", page=1, page_size=1)
        assert paged["count"] == 1

    play(scenario)


def test_pages(play: Play) -> None:
    async def scenario(client: Client) -> None:
        for text in ("one", "two", "three"):
            await keep(client, text, user_id="alice")
        more = {"version": "v2"} if VERSION[0] == 0 else {}
        page = await client.call("get_all", filters={"user_id": "alice"}, page=2, page_size=2, **more)
        assert ([memory["memory"] for memory in page["results"]], page["count"]) == (["one"], 3)
        assert page["next"] is None

    play(scenario)


def test_a_memory_is_changed_deleted_and_its_history_told(play: Play) -> None:
    async def scenario(client: Client) -> None:
        memory_id = await keep(client, "I like tea", user_id="alice")

        changed = await client.call("update", memory_id, text="I like milk")
        assert changed["memory"] == "I like milk"
        if VERSION[0] > 0:
            changed = await client.call("update", memory_id, metadata={"sure": True}, timestamp=1_796_040_000)
            assert (changed["metadata"], changed["updated_at"]) == ({"sure": True}, "2026-11-30T12:00:00.000000Z")
        assert await client.call("delete", memory_id) == {"message": "Memory deleted successfully!"}

        lines = await client.call("history", memory_id)
        events = [line["event"] for line in lines]
        assert (events[0], events[1], events[-1]) == ("ADD", "UPDATE", "DELETE")
        assert (lines[1]["old_memory"], lines[1]["new_memory"]) == ("I like tea", "I like milk")
        with pytest.raises(NOT_FOUND):
            await client.call("get", memory_id)

    play(scenario)


def test_all_memories_of_a_user_are_deleted(play: Play) -> None:
    async def scenario(client: Client) -> None:
        await keep(client, "one", user_id="alice")
        await keep(client, "two", user_id="bob")

        assert "message" in await client.call("delete_all", user_id="alice")
        assert await client.get_all(user_id="alice") == []
        assert len(await client.get_all(user_id="bob")) == 1

    play(scenario)


def test_users_are_listed_and_deleted_and_all_is_reset(play: Play) -> None:
    async def scenario(client: Client) -> None:
        await keep(client, "one", user_id="al/ice", run_id="r")
        await keep(client, "two", user_id="bob", agent_id="bot")

        found = await client.call("users")
        named = {(each["type"], each["name"]) for each in found["results"]}
        assert named == {("user", "al/ice"), ("user", "bob"), ("agent", "bot"), ("run", "r")}
        await client.call("delete_users", user_id="al/ice")
        assert [memory["memory"] for memory in await client.get_all(user_id="*")] == ["two"]
        await client.call("reset")
        assert (await client.call("users"))["results"] == []

    play(scenario)


def test_batches_change_and_delete(play: Play) -> None:
    async def scenario(client: Client) -> None:
        made = [await keep(client, text, user_id="alice") for text in ("one", "two")]

        await client.call("batch_update", [{"memory_id": memory_id, "text": "new"} for memory_id in made])
        assert [memory["memory"] for memory in await client.get_all(user_id="alice")] == ["new", "new"]
        await client.call("batch_delete", [{"memory_id": memory_id} for memory_id in made])
        assert await client.get_all(user_id="alice") == []

    play(scenario)


def test_errors_are_raised_as_clients_know_them(play: Play, account: Account) -> None:
    async def scenario(client: Client) -> None:
        for name in ("get", "history", "delete"):
            with pytest.raises(NOT_FOUND, match=r"There is no memory|404 Not Found"):
                await client.call(name, NOWHERE)
        with pytest.raises(INVALID, match=r"is no field of a memory|400 Bad Request"):
            await client.search("x", user_id="a", owner="b")
        with pytest.raises(INVALID, match=r"is no day|400 Bad Request"):
            await client.add(TALK, user_id="a", infer=False, expiration_date="soon")
        with pytest.raises((exceptions.MemoryError, httpx.HTTPStatusError), match=r"not offered|501 Not Implemented"):
            await client.call("feedback", NOWHERE, feedback="POSITIVE")
        with pytest.raises((exceptions.MemoryError, httpx.HTTPStatusError), match=r"not offered|501 Not Implemented"):
            await client.call("get_summary", {"user_id": "a"})
        for key, space in (("nonsense", client.space_id), (account.token, NOWHERE)):
            with pytest.raises(Exception, match=r"token|no memory space"):
                client.kind(api_key=key, host=f"{account.endpoint}/memory/{space}")

    play(scenario)


def test_a_host_may_end_in_a_slash(play: Play, account: Account) -> None:
    async def scenario(client: Client) -> None:
        again = client.kind(api_key=account.token, host=f"{client.host}/")
        assert again is not None

    play(scenario)

"""Random calls over HTTP, against the service and a plain model of it: the two never differ, on either engine.

Two users call two servers that share one database, so that nothing may hang on what one of them remembers.
"""

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

import httpx
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.api import drawn
from tests.api.drawn import callers, numbers, offsets, sizes, sought_keys
from tests.api.model import MAX_CONTENT, Event, Json, Model, Refused, Session, Space
from threadkeep.api.app import create_app
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.transport.in_process import InProcessTransport

EXAMPLES = 70
STEPS = 25
T = TypeVar("T")
Caller = tuple[int, str]
Which = tuple[bool, int]


class Servers:
    """Two servers on one database, called one request at a time."""

    def __init__(self, runner: asyncio.Runner, containers: list[Container], clients: list[httpx.AsyncClient]) -> None:
        self._runner = runner
        self._containers = containers
        self._clients = clients
        self.numbers = itertools.count()
        self._tokens: dict[str, str] = {}

    def take_new_users(self) -> None:
        """Users who have nothing yet, so that one database serves all examples."""
        for name in ("alice", "bob"):
            creating = self._containers[0].tokens.create(user=f"{name} {next(self.numbers)}", name="test")
            self._tokens[name] = self._runner.run(creating)[1]

    def call(self, caller: Caller, method: str, path: str, headers: dict[str, str], body: Any) -> httpx.Response:
        server, user = caller
        content = None if body is ... else json.dumps(body)
        headers = {"Authorization": f"Bearer {self._tokens[user]}", **headers}
        return self._runner.run(self._clients[server].request(method, path, headers=headers, content=content))


class Calls(RuleBasedStateMachine):
    """Each rule makes one call of the service and of the model."""

    servers: Servers

    @initialize()
    def begin(self) -> None:
        self.model = Model()
        self.servers.take_new_users()
        self.create_space((0, "alice"), {})
        for people in (["ann", "bob"], ["ann"]):
            self.create_session((0, "alice"), (True, 0), {"participants": people, "description": "//thread/t-1/"})
            event = {"body": {"content": "hi"}, "emitter": {"type": "user", "id": "ann"}, "type": "message"}
            self.append_batch((1, "alice"), (True, 0), [event] * 3, 1)

    @precondition(lambda self: self.count_live()[0] < 3)
    @rule(caller=callers, given=drawn.spaces)
    def create_space(self, caller: Caller, given: Json) -> None:
        learn = ("memorySpaceId", "userId", "tenantId", "createdAt")
        made = self.ask(
            *(caller, "POST", "memory/new/", lambda: self.model.create_space(caller[1], given)),
            body=given,
            status=201,
            learn=learn,
        )
        if made:
            assert made["memorySpaceId"] not in [space.fields["memorySpaceId"] for space in self.model.spaces]
            self.model.spaces.append(Space(caller[1], made))

    @rule(caller=callers, offset=offsets, limit=sizes, key=sought_keys)
    def list_spaces(self, caller: Caller, offset: int, limit: int, key: str | None) -> None:
        query = [("offset", offset), ("limit", limit), ("deduplicationKey", key)]
        self.ask(caller, "GET", "memory/", lambda: self.model.list_spaces(caller[1], offset, limit, key), query=query)

    @rule(caller=callers, number=numbers)
    def get_space(self, caller: Caller, number: Which) -> None:
        space, path = self.space(number)
        self.ask(caller, "GET", path, lambda: self.model.space(caller[1], space).fields)

    @rule(caller=callers, number=numbers, given=drawn.space_changes)
    def patch_space(self, caller: Caller, number: Which, given: Json) -> None:
        space, path = self.space(number)
        self.ask(caller, "PATCH", path, lambda: self.model.patch_space(caller[1], space, given), body=given)

    @precondition(lambda self: self.count_live()[0] > 1)
    @rule(caller=callers, number=numbers)
    def delete_space(self, caller: Caller, number: Which) -> None:
        space, path = self.space(number)
        self.ask(caller, "DELETE", path, lambda: self.model.delete_space(caller[1], space), status=204)

    @rule(caller=callers, number=numbers, given=drawn.sessions)
    def create_session(self, caller: Caller, number: Which, given: Json) -> None:
        space, path = self.space(number)
        made = self.ask(
            *(caller, "POST", f"{path}sessions/", lambda: self.model.create_session(caller[1], space, given)),
            body=given,
            status=201,
            learn=("id", "createdAt"),
        )
        if made:
            assert made["id"] not in [session.fields["id"] for session in space.sessions]
            space.sessions.append(Session(made))

    @rule(
        caller=callers,
        number=numbers,
        offset=offsets,
        limit=sizes,
        people=drawn.some_people,
        needle=drawn.needles,
        cut=drawn.cuts,
        key=sought_keys,
    )
    def list_sessions(
        self,
        caller: Caller,
        number: Which,
        offset: int,
        limit: int,
        people: list[str],
        needle: str | None,
        cut: tuple[int, int] | None,
        key: str | None,
    ) -> None:
        space, _ = self.space(number)
        described = [session.fields["description"] for session in space.sessions if session.fields["description"]]
        if cut and described:
            # A piece of what is there, or was.
            needle = described[cut[0] % len(described)][cut[0] : cut[0] + cut[1]]
        self.search(caller, space, offset, limit, people, needle, key)

    @rule(caller=callers, number=numbers)
    def get_session(self, caller: Caller, number: Which) -> None:
        space, session, path = self.session(number)
        self.ask(caller, "GET", path, lambda: self.model.session(caller[1], space, session).fields)

    @rule(
        caller=callers,
        number=numbers,
        given=drawn.session_changes,
        behind=drawn.versions_behind,
        form=st.sampled_from(["{}", '"{}"']),
    )
    def patch_session(self, caller: Caller, number: Which, given: Json, behind: int | None, form: str) -> None:
        space, session, path = self.session(number)
        expected = None if behind is None else session.fields["version"] - behind
        self.ask(
            *(caller, "PATCH", path),
            lambda: self.model.patch_session(caller[1], space, session, given, expected),
            body=given,
            headers={} if expected is None else {"If-Match": form.format(expected)},
        )

    @rule(number=numbers, description=drawn.descriptions, start=st.integers(0, 8))
    def describe(self, number: Which, description: str | None, start: int) -> None:
        """And look at once for a piece of it, in another case, and for what is a pattern to some engines."""
        space, _, _ = self.session(number)
        self.patch_session((0, "alice"), number, {"description": description}, 0, "{}")
        self.patch_session((1, "alice"), number, {"description": "late"}, 1, "{}")
        piece = (description or "late")[start:].swapcase()[:6]
        for people, needle in (([], piece), (["ann"], piece), (["ann", "bob"], piece), ([], "_%_"), (["ann"], "_%_")):
            self.search((1, "alice"), space, 0, 100, people, needle, None)

    @precondition(lambda self: self.count_live()[1] > 2)
    @rule(caller=callers, number=numbers)
    def delete_session(self, caller: Caller, number: Which) -> None:
        space, session, path = self.session(number)
        self.ask(caller, "DELETE", path, lambda: self.model.delete_session(caller[1], space, session), status=204)

    @rule(caller=callers, number=numbers, draft=drawn.drafts)
    def append(self, caller: Caller, number: Which, draft: Json) -> None:
        self.append_one(caller, number, draft, {})

    @rule(caller=callers, number=numbers, given=drawn.batches, times=drawn.repeats)
    def append_batch(self, caller: Caller, number: Which, given: list[Json], times: int) -> None:
        space, session, path = self.session(number)
        batch = given[:1] * times if times > 1 else given
        made = self.ask(
            *(caller, "POST", f"{path}events/batch/"),
            lambda: {"items": self.model.append(caller[1], space, session, batch)},
            body={"events": batch},
            status=201,
            learn=("createdAt",),
        )
        if made:
            session.events += [Event(fields) for fields in made["items"]]

    @rule(caller=callers, number=numbers, event_type=drawn.event_types, offset=offsets, limit=sizes)
    def list_events(self, caller: Caller, number: Which, event_type: str | None, offset: int, limit: int) -> None:
        space, session, path = self.session(number, with_events=True)
        self.ask(
            *(caller, "GET", f"{path}events/"),
            lambda: self.model.list_events(caller[1], space, session, event_type, offset, limit),
            query=[("eventType", event_type), ("offset", offset), ("limit", limit)],
        )

    @rule(caller=callers, number=numbers, event_type=drawn.event_types, after=offsets, limit=sizes)
    def events_after(self, caller: Caller, number: Which, event_type: str | None, after: int, limit: int) -> None:
        space, session, path = self.session(number, with_events=True)
        self.ask(
            *(caller, "GET", f"{path}events/"),
            lambda: self.model.events_after(caller[1], space, session, event_type, after, limit),
            query=[("eventType", event_type), ("after", after), ("limit", limit)],
        )

    @rule(caller=callers, number=numbers, event_type=drawn.event_types, after=offsets)
    def history(self, caller: Caller, number: Which, event_type: str | None, after: int) -> None:
        space, session, path = self.session(number, with_events=True)
        self.ask(
            *(caller, "GET", f"{path}history/"),
            lambda: self.model.history(caller[1], space, session, event_type, after),
            query=[("eventType", event_type), ("after", after)],
            read=lambda answer: {"items": [json.loads(line) for line in answer.content.splitlines()]},
        )

    @rule(caller=callers, number=numbers, size=st.integers(1, 3), people=drawn.some_people)
    def walk_sessions(self, caller: Caller, number: Which, size: int, people: list[str]) -> None:
        """The pages by cursor are those by offset."""
        space, path = self.space(number)
        cursor: str | None = ""
        seen = 0
        while cursor is not None:
            cursors: list[str | None] = []

            def page(seen: int = seen) -> Json:
                return {**self.model.list_sessions(caller[1], space, seen, size, people, None, None), "offset": 0}

            def read(answer: httpx.Response, cursors: list[str | None] = cursors) -> Json:
                found: Json = answer.json()
                cursors.append(found.pop("nextCursor"))
                return found

            query = [("cursor", cursor), ("limit", size), *(("participants", name) for name in people)]
            found = self.ask(caller, "GET", f"{path}sessions/", page, query=query, read=read)
            if found is None:
                return
            seen += len(found["items"])
            (cursor,) = cursors
            assert (cursor is not None) == (seen < found["total"])

    @rule(caller=callers, number=numbers, draft=drawn.drafts, another=st.booleans())
    def append_again(self, caller: Caller, number: Which, draft: Json, another: bool) -> None:
        """An answer that was lost: the same request on the other server, or with the key another one."""
        _, _, path = self.session(number)
        headers = {"Idempotency-Key": f"key {next(self.servers.numbers)}"}
        made = self.append_one(caller, number, draft, headers)
        if made is None:
            return
        other = (1 - caller[0], caller[1])
        sent = {"body": {"content": "another"}, "emitter": {"type": "agent"}} if another else draft
        answer = self.servers.call(other, "POST", f"{path}events/", headers, sent)
        if another:
            assert (answer.status_code, "Idempotency-Key" in answer.text) == (422, True), answer.text
        else:
            assert (answer.status_code, answer.headers["Idempotency-Replayed"]) == (201, "true"), answer.text
            assert answer.json()["sequenceId"] == made["sequenceId"]
        self.history(caller, number, None, 0)

    @rule(caller=callers, number=numbers, event_type=drawn.event_types, count=sizes)
    def last_events(self, caller: Caller, number: Which, event_type: str | None, count: int) -> None:
        space, session, path = self.session(number, with_events=True)
        self.ask(
            *(caller, "GET", f"{path}events/"),
            lambda: self.model.last_events(caller[1], space, session, event_type, count),
            query=[("eventType", event_type), ("lastN", count)],
        )

    @rule(caller=callers, number=numbers, place=drawn.places, given=drawn.changes, token=drawn.tokens)
    def patch_event(self, caller: Caller, number: Which, place: int, given: Json, token: str) -> None:
        space, session, path = self.session(number, with_events=True)
        change = self.change(session, place, given, token)
        self.ask(
            *(caller, "PATCH", f"{path}events/{change['sequenceId']}/"),
            lambda: self.model.patch_events(caller[1], space, session, [change])[0],
            body=given,
            query=[("createdAt", change.get("createdAt"))],
            learn=("createdAt",),
        )

    @rule(number=numbers, place=drawn.places, event_type=st.sampled_from(["message", "status"]))
    def patch_type(self, number: Which, place: int, event_type: str) -> None:
        """And look at once what lists by type make of it; of two changes with one stale token, nothing."""
        self.patch_event((0, "alice"), number, place, {"type": event_type}, "right")
        self.patch_batch((1, "alice"), number, [(0, {"type": "both"}, "right"), (1, {"type": "both"}, "stale")])
        self.last_events((1, "alice"), number, event_type, 100)
        self.list_events((0, "alice"), number, "message", 1, 2)

    @rule(caller=callers, number=numbers, items=drawn.changed_events)
    def patch_batch(self, caller: Caller, number: Which, items: list[tuple[int, Json, str]]) -> None:
        space, session, path = self.session(number, with_events=True)
        batch = [self.change(session, *item) for item in items]
        self.ask(
            *(caller, "PATCH", f"{path}events/batch/"),
            lambda: {"items": self.model.patch_events(caller[1], space, session, batch)},
            body={"events": batch},
            learn=("createdAt",),
        )

    @rule(
        caller=callers,
        number=numbers,
        keys=drawn.looked_up,
        event_type=drawn.event_types,
        offset=offsets,
        limit=sizes,
    )
    def find_events(
        self, caller: Caller, number: Which, keys: list[str], event_type: str | None, offset: int, limit: int
    ) -> None:
        self.look_up(caller, self.space(number)[0], keys, event_type, offset, limit)

    def look_up(
        self, caller: Caller, space: Space, keys: list[str], event_type: str | None, offset: int, limit: int
    ) -> None:
        query: list[tuple[str, Any]] = [("eventType", event_type), ("offset", offset), ("limit", limit)]
        self.ask(
            *(caller, "GET", f"memory/{space.fields['memorySpaceId']}/events/"),
            lambda: self.model.find_events(caller[1], space, keys, event_type, offset, limit),
            query=[*query, *(("lookupKey", key) for key in keys)],
        )

    @rule(number=numbers, place=drawn.places, keys=st.lists(st.sampled_from("abc"), min_size=1, max_size=2))
    def give_keys(self, number: Which, place: int, keys: list[str]) -> None:
        """And look at once what is found by them, there and in what was deleted."""
        self.patch_event((0, "alice"), number, place, {"lookupKeys": keys}, "right")
        space, _, _ = self.session(number, with_events=True)
        self.look_up((1, "alice"), space, ["a", "b", "c"], None, 0, 100)

    @rule(caller=callers, number=numbers, event_type=drawn.event_types)
    def newest_events(self, caller: Caller, number: Which, event_type: str | None) -> None:
        space, path = self.space(number)
        ids = [session.fields["id"] for session in space.sessions] or ["none"]
        self.ask(
            *(caller, "GET", f"{path}events/newest/"),
            lambda: self.model.newest_events(caller[1], space, ids, event_type),
            query=[("eventType", event_type), *(("sessionId", session_id) for session_id in ids[:100])],
        )

    @rule(caller=callers, number=numbers, place=drawn.places)
    def delete_event(self, caller: Caller, number: Which, place: int) -> None:
        space, session, path = self.session(number, with_events=True)
        of = self.number_of(session, place)
        self.ask(
            *(caller, "DELETE", f"{path}events/{of}/"),
            lambda: self.model.delete_event(caller[1], space, session, of),
            status=204,
        )

    def append_one(self, caller: Caller, number: Which, draft: Json, headers: dict[str, str]) -> Json | None:
        space, session, path = self.session(number)
        made = self.ask(
            *(caller, "POST", f"{path}events/"),
            lambda: self.model.append(caller[1], space, session, [draft])[0],
            body=draft,
            headers=headers,
            status=201,
            learn=("createdAt",),
        )
        if made:
            session.events.append(Event(made))
        return cast(Json | None, made)

    def search(
        self,
        caller: Caller,
        space: Space,
        offset: int,
        limit: int,
        people: list[str],
        needle: str | None,
        key: str | None,
    ) -> None:
        query = [("offset", offset), ("limit", limit), ("description", needle), ("deduplicationKey", key)]
        self.ask(
            *(caller, "GET", f"memory/{space.fields['memorySpaceId']}/sessions/"),
            lambda: self.model.list_sessions(caller[1], space, offset, limit, people, needle, key),
            query=[*query, *(("participants", name) for name in people)],
        )

    def count_live(self) -> tuple[int, int]:
        """Spaces and sessions that alice sees."""
        spaces = [space for space in self.model.spaces if space.is_seen_by("alice")]
        return len(spaces), sum(session.live for space in spaces for session in space.sessions)

    def space(self, number: Which) -> tuple[Space, str]:
        found = _choose(self.model.spaces, [space.is_seen_by("alice") for space in self.model.spaces], number)
        return found, f"memory/{found.fields['memorySpaceId']}/"

    def session(self, number: Which, *, with_events: bool = False) -> tuple[Space, Session, str]:
        all_ = [(space, session) for space in self.model.spaces for session in space.sessions]
        seen = [session.live and space.is_seen_by("alice") for space, session in all_]
        if with_events:
            filled = [is_seen and bool(session.of_type(None)) for is_seen, (_, session) in zip(seen, all_, strict=True)]
            seen = filled if any(filled) else seen
        space, session = _choose(all_, seen, number)
        return space, session, f"memory/{space.fields['memorySpaceId']}/sessions/{session.fields['id']}/"

    @staticmethod
    def number_of(session: Session, place: int) -> int:
        there = session.of_type(None)
        return int(there[-1 - place]["sequenceId"]) if 0 <= place < len(there) else len(session.events) - place

    def change(self, session: Session, place: int, given: Json, token: str) -> Json:
        """A change to an event, with a token that is as said."""
        number = self.number_of(session, place)
        change = {"sequenceId": number, **given}
        if token == "none" or not 0 < number <= len(session.events):
            return change
        event = session.events[number - 1]
        stored = event.fields["createdAt"]
        stale = event.past_tokens[0] if event.past_tokens else "2026-01-01T00:00:00.000001Z"
        return {**change, "createdAt": {"right": stored, "stale": stale, "cut": f"{stored[:19]}Z"}[token]}

    def ask(
        self,
        caller: Caller,
        method: str,
        path: str,
        predict: Callable[[], Any],
        *,
        body: Any = ...,
        query: list[tuple[str, Any]] | None = None,
        headers: dict[str, str] | None = None,
        status: int = 200,
        learn: tuple[str, ...] = (),
        read: Callable[[httpx.Response], Json] = httpx.Response.json,
    ) -> Any:
        """Make a call, and hold the answer against the model's.

        `learn` are fields that only the service can know: the model takes them over, later times only.
        """
        given = [pair for pair in query or [] if pair[1] is not None]
        answer = self.servers.call(
            caller, method, f"{path}?{urlencode(given, errors='surrogatepass')}", headers or {}, body
        )
        try:
            expected = predict()
        except Refused as refused:
            _check_refusal(answer, refused)
            return None
        assert answer.status_code == status, answer.text
        if status == 204:
            assert answer.content == b""
            return None
        found = read(answer)
        for mine, theirs in _entities(expected, found):
            for name in learn:
                assert name != "createdAt" or theirs[name] > mine.get(name, "")
                mine[name] = theirs[name]
        assert _comparable(found) == _comparable(expected)
        return found


def _choose(all_: list[T], seen: list[bool], number: Which) -> T:
    among = [each for each, is_seen in zip(all_, seen, strict=True) if is_seen] if number[0] else []
    among = among or all_
    return among[-1 - number[1] % len(among)]


def _check_refusal(answer: httpx.Response, refused: Refused) -> None:
    body = answer.json()
    assert any(
        fault.status == answer.status_code
        and dict(fault.body).items() <= body.items()
        and str(body["detail"]).startswith(fault.detail)
        for fault in refused.faults
    ), (answer.status_code, body, refused)


def _entities(expected: Json, found: Json) -> Iterator[tuple[Json, Json]]:
    """What the two answers hold, side by side."""
    if "items" not in expected:
        yield expected, found
    elif isinstance(found.get("items"), list):
        yield from zip(expected["items"], found["items"], strict=True)


def _comparable(answer: Json) -> Any:
    """The answer, with every field as text: `1.0` is not `1`, and the order inside opaque objects counts."""
    if "items" in answer:
        return {**answer, "items": [_comparable(item) for item in answer["items"]]}
    return {name: json.dumps(value) for name, value in answer.items()}


def test_random_calls_are_answered_as_the_model_says(database: str) -> None:
    async def open_servers(stack: AsyncExitStack) -> tuple[list[Container], list[httpx.AsyncClient]]:
        containers, clients = [], []
        for _ in range(2):
            containers.append(await Container.open(Settings(database=database, max_content=MAX_CONTENT)))
            stack.push_async_callback(containers[-1].close)
            transport = InProcessTransport(create_app(containers[-1]))
            http = httpx.AsyncClient(transport=transport, base_url="http://threadkeep.test/api/v2", timeout=60)
            clients.append(await stack.enter_async_context(http))
        return containers, clients

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        Calls.servers = Servers(runner, *runner.run(open_servers(stack)))
        try:
            run_state_machine_as_test(
                Calls,
                settings=settings(
                    max_examples=EXAMPLES,
                    stateful_step_count=STEPS,
                    derandomize=True,
                    database=None,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(stack.aclose())

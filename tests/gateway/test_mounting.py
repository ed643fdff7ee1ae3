"""The gateway inside other applications, behind real servers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from tests.gateway.hosts import HOSTS, Host, fastapi, served, starlette
from tests.gateway.stack import Frame, read_frames, row, run_body, summary
from threadkeep import embedded
from threadkeep.domain.principal import Principal
from threadkeep.errors import Forbidden, Invalid, Unavailable
from threadkeep.gateway import Gateway, create_app
from threadkeep.gateway.agents import BadAgent
from threadkeep.gateway.histories import SPACE_KEY
from threadkeep.persistence import DRMemorySpace
from threadkeep.services.container import Container
from threadkeep.services.tokens import Tokens
from threadkeep.settings import Settings
from threadkeep.storage.database import BadDatabaseURL
from threadkeep.testing.agents import ScriptedAgent, Step

STARTED = {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}
HALF: list[Step] = [
    STARTED,
    {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "One, two"},
]
WHOLE: list[Step] = [
    *HALF,
    {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
    {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"},
]


def user_of(request: Request) -> str | None:
    return request.cookies.get("user")


@asynccontextmanager
async def browser(url: str, user: str | None = "ann") -> AsyncIterator[httpx.AsyncClient]:
    cookies = {} if user is None else {"user": user}
    async with httpx.AsyncClient(base_url=url, cookies=cookies, trust_env=False, timeout=60) as http:
        yield http


async def run(http: httpx.AsyncClient, **fields: Any) -> list[Frame]:
    response = await http.post("", json=run_body(**fields))
    assert response.status_code == 200, response.text
    return read_frames(response.content)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("has_lifespan", [True, False])
async def test_it_is_mounted_in_an_application_of_each_framework(database: str, host: Host, has_lifespan: bool) -> None:
    gateway = create_app(agent=ScriptedAgent(WHOLE), database=database, authenticate=user_of)
    async with (
        served(host("/api/chat", gateway, has_lifespan=has_lifespan)) as url,
        browser(f"{url}/api/chat/") as ann,
        browser(f"{url}/api/chat/", "bob") as bob,
    ):
        frames = await run(ann, thread="a/b %2F")
        stored = await ann.get("threads/a%2Fb%20%252F/messages/")
        of_bob = await bob.get("threads/a%2Fb%20%252F/messages/")
        (of_ann,) = (await ann.get("threads/")).json()["items"]
    if not has_lifespan:
        await gateway.aclose()
    assert [frame.id for frame in frames] == ["r1:0", "r1:1", "r1:2", "r1:3", "r1:4"]
    assert summary(stored.json()["items"]) == [row("user", "hi"), row("assistant", "One, two")]
    assert of_ann["threadId"] == "a/b %2F"
    assert (of_bob.status_code, of_bob.json()) == (404, {"detail": "There is no thread 'a/b %2F'"})


@pytest.mark.parametrize("host", HOSTS)
async def test_a_path_that_is_not_served_is_named_as_it_was_asked_for(tmp_path: Path, host: Host) -> None:
    gateway = create_app(agent=ScriptedAgent(), database=f"sqlite:///{tmp_path}/t.db", authenticate=user_of)
    async with served(host("/api/chat", gateway)) as url, browser(f"{url}/api/chat/") as ann:
        lost, probe = await ann.get("threads"), await ann.get("metrics")
    detail = "There is nothing at /api/chat/threads; every path ends in a slash: /api/chat/threads/"
    assert (lost.status_code, lost.json()) == (404, {"detail": detail})
    assert probe.status_code == 404


@pytest.mark.parametrize("host", HOSTS)
async def test_the_host_s_lifespan_stops_what_runs_and_lets_it_be_stored(tmp_path: Path, host: Host) -> None:
    database = f"sqlite:///{tmp_path}/t.db"
    gateway = create_app(agent=ScriptedAgent([*HALF, asyncio.Event()]), database=database, authenticate=user_of)
    async with (
        served(host("/agui", gateway)) as url,
        browser(f"{url}/agui/") as ann,
        ann.stream("POST", "", json=run_body()) as response,
    ):
        seen = b""
        async for chunk in response.aiter_bytes():
            seen += chunk
            if b"One, two" in seen:
                break
    async with (
        create_app(agent=ScriptedAgent(), database=database, authenticate=user_of) as again,
        served(again) as url,
        browser(url) as ann,
    ):
        (thread,) = (await ann.get("/threads/")).json()["items"]
        stored = (await ann.get("/threads/t1/messages/")).json()["items"]
    assert thread["activeRunId"] is None
    assert summary(stored) == [row("user", "hi"), row("assistant", "One, two", "interrupted")]


async def test_without_users_of_the_host_s_a_request_needs_one_of_our_tokens(database: str) -> None:
    async with (
        create_app(agent=ScriptedAgent(WHOLE), database=database) as gateway,
        served(fastapi("/agui", gateway, has_lifespan=False)) as url,
    ):
        container = await Container.open(Settings(database=database))
        _, secret = await container.tokens.create(user="ann", name="t")
        await container.close()
        async with browser(f"{url}/agui/") as ann:
            refused = await ann.get("threads/")
            ann.headers["Authorization"] = f"Bearer {secret}"
            await run(ann)
            listed = await ann.get("threads/")
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert [thread["threadId"] for thread in listed.json()["items"]] == ["t1"]


async def test_a_user_of_the_host_s_is_the_user_of_that_name_everywhere(database: str) -> None:
    async def user_of_header(request: Request) -> str:
        return request.headers["x-user"]

    async with (
        create_app(agent=ScriptedAgent(WHOLE), database=database, authenticate=user_of_header) as gateway,
        served(starlette("/agui", gateway, has_lifespan=False)) as url,
        httpx.AsyncClient(base_url=f"{url}/agui/", headers={"X-User": "ann"}, timeout=60) as http,
    ):
        await run(http)
    async with embedded.client(database, user="ann") as client:
        (space,) = await DRMemorySpace.list(client)
    assert space.deduplication_key == SPACE_KEY


async def test_who_may_not_in_is_answered_in_the_form_of_whoever_says_so(tmp_path: Path) -> None:
    def user_of_many(request: Request) -> str | None:
        name = request.cookies.get("user")
        if name == "mallory":
            raise Forbidden("Mallory has left the company")
        if name == "teapot":
            raise HTTPException(418, "The host's own words")
        return name

    gateway = create_app(agent=ScriptedAgent(), database=f"sqlite:///{tmp_path}/t.db", authenticate=user_of_many)
    async with served(fastapi("/agui", gateway)) as url:
        answers = {}
        for name in (None, "mallory", "teapot", "n" * 201):
            async with browser(f"{url}/agui/", name) as http:
                answers[name] = await http.get("threads/")
    assert (answers[None].status_code, answers[None].json()) == (401, {"detail": "Nobody is signed in"})
    assert (answers["mallory"].status_code, answers["mallory"].json()) == (
        403,
        {"detail": "Mallory has left the company"},
    )
    assert (answers["teapot"].status_code, answers["teapot"].json()) == (418, {"detail": "The host's own words"})
    assert answers["n" * 201].status_code == 422


async def test_it_serves_alone_too(tmp_path: Path) -> None:
    gateway = create_app(agent=ScriptedAgent(WHOLE), database=f"sqlite:///{tmp_path}/t.db", authenticate=user_of)
    async with served(gateway) as url, browser(f"{url}/") as ann:
        await run(ann)
        assert [thread["threadId"] for thread in (await ann.get("threads/")).json()["items"]] == ["t1"]
    assert [task for task in asyncio.all_tasks() if task.get_name() == "keep the leases of runs"] == []


async def test_many_first_requests_open_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = Container.open

    async def count(settings: Settings, **options: Any) -> Container:
        opened.append(settings.database)
        return await real(settings, **options)

    monkeypatch.setattr(Container, "open", count)
    gateway = create_app(agent=ScriptedAgent(), database=f"sqlite:///{tmp_path}/t.db", authenticate=user_of)
    async with served(starlette("/agui", gateway, has_lifespan=False)) as url, browser(f"{url}/agui/") as ann:
        answers = await asyncio.gather(*(ann.get("threads/") for _ in range(8)))
    await gateway.aclose()
    assert [answer.status_code for answer in answers] == [200] * 8
    assert opened == [f"sqlite:///{tmp_path}/t.db"]


async def test_a_user_is_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = Tokens.local_principal

    async def count(tokens: Tokens, name: str = "local") -> Principal:
        asked.append(name)
        return await real(tokens, name)

    monkeypatch.setattr(Tokens, "local_principal", count)
    gateway = create_app(agent=ScriptedAgent(), database=f"sqlite:///{tmp_path}/t.db", authenticate=user_of)
    async with served(gateway) as url, browser(f"{url}/") as ann, browser(f"{url}/", "bob") as bob:
        for _ in range(2):
            assert [(await each.get("threads/")).status_code for each in (ann, bob)] == [200, 200]
    assert asked == ["ann", "bob"]


async def test_an_opening_that_fails_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Container.open
    failures: list[Exception] = [Unavailable("The database gives no answer"), BadDatabaseURL("postgresql://u:secret@h")]

    async def fail(settings: Settings, **options: Any) -> Container:
        if failures:
            raise failures.pop(0)
        return await real(settings, **options)

    monkeypatch.setattr(Container, "open", fail)
    gateway = create_app(agent=ScriptedAgent(), database=f"sqlite:///{tmp_path}/t.db", authenticate=user_of)
    async with served(starlette("/agui", gateway, has_lifespan=False)) as url, browser(f"{url}/agui/") as ann:
        answers = [await ann.get("threads/") for _ in range(3)]
    await gateway.aclose()
    assert [answer.status_code for answer in answers] == [503, 500, 200]
    assert answers[0].json() == {"detail": "The database gives no answer"}
    assert "secret" not in answers[1].text


async def test_a_closed_one_answers_503_until_it_is_opened_again(tmp_path: Path) -> None:
    gateway = create_app(agent=ScriptedAgent(WHOLE), database=f"sqlite:///{tmp_path}/t.db", authenticate=user_of)
    async with served(starlette("/agui", gateway, has_lifespan=False)) as url, browser(f"{url}/agui/") as ann:
        async with gateway:
            await run(ann)
        closed = await ann.get("threads/")
        await gateway.aclose()
        async with gateway:
            found = (await ann.get("threads/")).json()["items"]
    assert (closed.status_code, closed.json()) == (503, {"detail": "The gateway is closed"})
    assert [thread["threadId"] for thread in found] == ["t1"]


def test_each_event_loop_after_the_other_may_open_it(tmp_path: Path) -> None:
    gateway = create_app(agent=ScriptedAgent(), database=f"sqlite:///{tmp_path}/t.db", authenticate=user_of)

    async def ask() -> int:
        transport = httpx.ASGITransport(gateway)
        async with httpx.AsyncClient(transport=transport, base_url="http://host", cookies={"user": "ann"}) as http:
            status = (await http.get("/threads/")).status_code
        await gateway.aclose()
        gateway._is_closed = False
        return status

    assert [asyncio.run(ask()), asyncio.run(ask())] == [200, 200]


async def test_a_user_that_is_no_name_is_an_error_of_the_host_s(tmp_path: Path) -> None:
    wrong: Any = lambda request: 7  # noqa: E731
    gateway = create_app(agent=ScriptedAgent(), database=f"sqlite:///{tmp_path}/t.db", authenticate=wrong)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(gateway), base_url="http://host") as http:
        with pytest.raises(TypeError, match="authenticate is to return the name of a user or None, not int"):
            await http.get("/threads/")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, BadAgent, "Give an agent or the URL of an upstream, and not both"),
        ({"agent": ScriptedAgent(), "upstream": "http://h/"}, BadAgent, "and not both"),
        ({"agent": 7}, BadAgent, "The agent is a int; it must be an AGUIAgent or make one"),
        ({"agent": "no_such_module:agent"}, BadAgent, "There is no module 'no_such_module'"),
        ({"upstream": "h:9000"}, BadAgent, "'h:9000' is no http or https URL of an AG-UI server"),
        ({"agent": ScriptedAgent(), "upstream_headers": {"a": "b"}}, BadAgent, "upstream_headers go to an upstream"),
        ({"agent": ScriptedAgent(), "database": "mysql://h/d"}, BadDatabaseURL, "is no database URL"),
        ({"agent": ScriptedAgent(), "database": "sqlite:///:memory:"}, BadDatabaseURL, "names no file"),
        ({"agent": ScriptedAgent(), "database": 7}, TypeError, "database is a URL, not int"),
        ({"agent": ScriptedAgent(), "authenticate": "ann"}, TypeError, "from a request to a user, not str"),
        ({"agent": ScriptedAgent(), "settings": {}}, TypeError, "Settings, not dict"),
        ({"agent": ScriptedAgent(), "settings": Settings(client_messages="x")}, Invalid, "client_messages is one of"),
        ({"agent": ScriptedAgent(), "settings": Settings(run_lease=0)}, Invalid, "run_lease is a whole number from 1"),
        ({"agent": ScriptedAgent(), "settings": Settings(run_policy="x")}, Invalid, "run_policy is one of"),
        ({"agent": ScriptedAgent(), "settings": Settings(open_interrupts="x")}, Invalid, "open_interrupts is one of"),
    ],
)
def test_what_is_wrong_is_said_where_it_is_made(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        create_app(**arguments)


def test_agent_and_upstream_may_come_from_the_settings() -> None:
    settings = Settings(agent="threadkeep.demo:agent")
    assert isinstance(create_app(settings=settings), Gateway)
    assert isinstance(create_app(settings=replace(settings, agent=None, upstream="http://127.0.0.1:9/")), Gateway)
    assert isinstance(create_app(settings=settings, upstream="http://127.0.0.1:9/"), Gateway)


async def test_settings_hold_in_what_is_mounted(tmp_path: Path) -> None:
    settings = Settings(max_request_bytes=1_000)
    gateway = create_app(
        agent=ScriptedAgent(), database=f"sqlite:///{tmp_path}/t.db", authenticate=user_of, settings=settings
    )
    async with served(starlette("/agui", gateway)) as url, browser(f"{url}/agui/") as ann:
        refused = await ann.post("", content=json.dumps(run_body(text="x" * 1_000)))
    assert refused.status_code == 413

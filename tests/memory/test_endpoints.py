"""Which model is asked for which space, and with which key."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from threadkeep.errors import AddressRefused, ModelFailed
from threadkeep.memory.addresses import BadAllowance
from threadkeep.memory.endpoints import BadModelSettings, Endpoints
from threadkeep.memory.offline import OfflineEmbedder
from threadkeep.memory.openai import OpenAIEmbedder
from threadkeep.memory.ports import ChatMessage
from threadkeep.settings import Settings
from threadkeep.testing.openai_server import OpenAIServer, Reply

HI = [ChatMessage("user", "hi")]
GOOD = Reply(text=['{"a":1}'])


@pytest.fixture
async def open_with() -> AsyncIterator[Any]:
    opened: list[Endpoints] = []

    def open_endpoints(**settings: Any) -> Endpoints:
        opened.append(Endpoints(Settings(**settings)))
        return opened[-1]

    yield open_endpoints
    for each in opened:
        await each.close()


@pytest.fixture
def own() -> Any:
    with OpenAIServer([], always=GOOD) as server:
        yield server


@pytest.fixture
def other() -> Any:
    with OpenAIServer([], always=GOOD) as server:
        yield server


async def ask(endpoints: Endpoints, model_name: str | None, base_url: str | None) -> None:
    model = await endpoints.chat(model_name, base_url)
    assert model is not None
    assert await model.complete(HI, {}) == {"a": 1}


async def test_the_operators_model_is_asked_with_the_operators_key(open_with: Any, own: OpenAIServer) -> None:
    endpoints = open_with(llm_base_url=own.url, llm_model="m", llm_api_key="operators")

    await ask(endpoints, None, None)
    await ask(endpoints, "larger", None)
    await ask(endpoints, "larger", own.url + "/")

    assert [request["model"] for request in own.requests] == ["m", "larger", "larger"]
    assert {headers["authorization"] for headers in own.headers} == {"Bearer operators"}


async def test_a_spaces_endpoint_is_asked_with_the_key_of_its_host_and_never_with_the_operators(
    open_with: Any, own: OpenAIServer, other: OpenAIServer
) -> None:
    settings = {
        "llm_base_url": own.url,
        "llm_model": "m",
        "llm_api_key": "operators",
        "llm_allowed_hosts": "127.0.0.1:*, localhost:*",
        "llm_allowed_networks": "127.0.0.0/8, ::1/128",
        "llm_host_keys": "127.0.0.1=hosts",
    }
    endpoints = open_with(**settings)

    await ask(endpoints, None, other.url)
    await ask(endpoints, None, other.url.replace("127.0.0.1", "localhost"))
    # On the operator's own host, but at another path.
    await ask(endpoints, None, own.url.replace("127.0.0.1", "localhost"))

    assert [headers.get("authorization") for headers in other.headers] == ["Bearer hosts", None]
    assert [headers.get("authorization") for headers in own.headers] == [None]


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v1", "http://[::1", "nonsense", "http://169.254.169.254/v1"])
async def test_a_space_cannot_name_what_the_operator_did_not(open_with: Any, own: OpenAIServer, url: str) -> None:
    endpoints = open_with(llm_base_url=own.url, llm_model="m")
    with pytest.raises(AddressRefused):
        await endpoints.chat(None, url)


async def test_another_path_on_the_operators_host_is_a_spaces_own_address(open_with: Any, own: OpenAIServer) -> None:
    endpoints = open_with(llm_base_url=own.url, llm_model="m", llm_api_key="operators")
    with pytest.raises(AddressRefused):
        await endpoints.chat(None, own.url + "/../admin")
    assert own.requests == []


async def test_without_any_endpoint_there_is_no_model(open_with: Any) -> None:
    assert await open_with().chat("m", None) is None
    assert not open_with().can_extract
    assert open_with(llm_allowed_hosts="api.example.com").can_extract
    assert open_with(llm_base_url="http://x.test/v1").can_extract
    with pytest.raises(ModelFailed, match="neither llmModelName nor THREADKEEP_LLM_MODEL"):
        await open_with(llm_base_url="http://x.test/v1").chat(None, None)


async def test_connections_to_few_endpoints_of_spaces_are_kept(
    open_with: Any, own: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadkeep.memory.endpoints._KEPT", 2)
    endpoints = open_with(llm_base_url=own.url, llm_allowed_hosts="*:*", llm_allowed_networks="127.0.0.0/8")
    models = [await endpoints.chat(name, own.url + "/x") for name in ("a", "b", "a", "c", "a", "b")]
    assert models[0] is models[2] is models[4]
    assert models[1] is not models[5]


async def test_the_embedder_is_the_one_that_the_operator_names(open_with: Any, own: OpenAIServer) -> None:
    assert open_with().embedder is None
    assert isinstance(open_with(embedding_model="offline").embedder, OfflineEmbedder)
    shared = open_with(embedding_model="e", llm_base_url=own.url, llm_api_key="k").embedder
    alone = open_with(embedding_model="e", embedding_base_url=own.url, embedding_api_key="k").embedder
    for embedder in (shared, alone):
        assert isinstance(embedder, OpenAIEmbedder)
        assert len(await embedder.embed(["x"])) == 1
    assert own.embedded == [["x"], ["x"]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"embedding_model": "e"}, "'e' needs an endpoint"),
        ({"llm_base_url": "http://[::1"}, "is no URL"),
        ({"llm_host_keys": "api.example.com=k, sk-123"}, "Item 2 of THREADKEEP_LLM_HOST_KEYS is no HOST=KEY"),
        ({"llm_allowed_networks": "ten"}, "is no network"),
    ],
)
async def test_settings_that_cannot_be_are_refused_at_the_start(
    open_with: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises((BadModelSettings, BadAllowance), match=message) as caught:
        open_with(**settings)
    assert "sk-123" not in str(caught.value)


def test_keys_are_not_among_the_settings_that_are_shown() -> None:
    settings = Settings(llm_api_key="sk-1", llm_host_keys="h=sk-2", embedding_api_key="sk-3")
    assert "sk-" not in repr(settings)

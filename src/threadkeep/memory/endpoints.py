"""Which model is asked: the space's, where it names one and the operator lets it, else the operator's.

The operator's key goes to the operator's own endpoint and nowhere else. A host that a space names gets the key that the
operator has set for that host, or none: no key is ever a space's.
"""

import asyncio
from collections import OrderedDict

import httpx

from threadkeep.errors import AddressRefused, ModelFailed, ThreadkeepError
from threadkeep.memory.addresses import Allowance, GuardedTransport, Resolve
from threadkeep.memory.endpoint import Endpoint, Pause
from threadkeep.memory.openai import OpenAIChat, OpenAIEmbedder
from threadkeep.memory.ports import ChatModel, Embedder
from threadkeep.settings import Settings

OFFLINE = "offline"
"""The embedding model that needs no endpoint."""
_KEPT = 64
"""Models of spaces whose connections are kept."""


class BadModelSettings(ThreadkeepError, ValueError):
    """Settings of models that contradict each other or cannot be read."""


class Endpoints:
    """The models that there are, and the connections to them. Raises BadModelSettings, BadAllowance, MissingExtra."""

    def __init__(self, settings: Settings, *, resolve: Resolve | None = None, pause: Pause = asyncio.sleep) -> None:
        self._settings = settings
        self._resolve = resolve
        self._pause = pause
        self._allowance = Allowance.parse(settings.llm_allowed_hosts or "", settings.llm_allowed_networks or "")
        self._host_keys = _parse_keys(settings.llm_host_keys or "")
        self._own = None if settings.llm_base_url is None else self._own_endpoint(settings.llm_base_url)
        self._chats: OrderedDict[tuple[str, str], tuple[OpenAIChat, Endpoint]] = OrderedDict()
        self.embedder: Embedder | None = self._open_embedder()
        """What turns texts into vectors; None where the operator has set nothing."""

    @property
    def can_extract(self) -> bool:
        """Whether there is, or may be, a model for some space."""
        return self._own is not None or bool(self._allowance.hosts)

    async def chat(self, model_name: str | None, base_url: str | None) -> ChatModel | None:
        """The model for a space that says this of it; None where neither it nor the operator names an endpoint.

        Raises AddressRefused, ModelFailed.
        """
        name = model_name or self._settings.llm_model
        url = base_url or self._settings.llm_base_url
        if url is None:
            return None
        if name is None:
            raise ModelFailed("No model is named: neither llmModelName nor THREADKEEP_LLM_MODEL is set", is_final=True)
        known = self._chats.get((url, name))
        if known is None:
            endpoint = self._own if self._own is not None and _is_same(url, self._settings) else self._guarded(url)
            known = self._chats[url, name] = OpenAIChat(endpoint, name), endpoint
        self._chats.move_to_end((url, name))
        if len(self._chats) > _KEPT:
            _, (_, oldest) = self._chats.popitem(last=False)
            if oldest is not self._own:
                await oldest.close()
        return known[0]

    async def close(self) -> None:
        """Let go of all connections."""
        endpoints = {id(endpoint): endpoint for _, endpoint in self._chats.values()}
        for endpoint in (*endpoints.values(), self._own, self._embedding_endpoint):
            if endpoint is not None:
                await endpoint.close()

    def _own_endpoint(self, url: str) -> Endpoint:
        return self._endpoint(url, self._settings.llm_api_key, guarded=False)

    def _guarded(self, url: str) -> Endpoint:
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:
            raise AddressRefused("The llmBaseUrl of the space is no URL") from None
        self._allowance.check_url(parsed)
        return self._endpoint(url, self._host_keys.get(parsed.host), guarded=True)

    def _endpoint(self, url: str, key: str | None, *, guarded: bool) -> Endpoint:
        try:
            return Endpoint(
                url,
                key,
                timeout=self._settings.llm_timeout,
                at_once=self._settings.llm_at_once,
                transport=GuardedTransport(self._allowance, resolve=self._resolve) if guarded else None,
                pause=self._pause,
            )
        except httpx.InvalidURL:
            raise BadModelSettings(f"{url!r} is no URL such as https://api.openai.com/v1") from None

    def _open_embedder(self) -> Embedder | None:
        settings = self._settings
        self._embedding_endpoint: Endpoint | None = None
        if settings.embedding_model is None:
            return None
        if settings.embedding_model == OFFLINE:
            from threadkeep.memory.offline import OfflineEmbedder

            return OfflineEmbedder()
        if settings.embedding_base_url is not None:
            self._embedding_endpoint = self._endpoint(
                settings.embedding_base_url, settings.embedding_api_key, guarded=False
            )
        endpoint = self._embedding_endpoint or self._own
        if endpoint is None:
            raise BadModelSettings(
                f"The embedding model {settings.embedding_model!r} needs an endpoint: set --embedding-base-url, "
                "--llm-base-url, or --embedding-model offline"
            )
        return OpenAIEmbedder(endpoint, settings.embedding_model)


def _is_same(url: str, settings: Settings) -> bool:
    """Whether this is the operator's own endpoint, path and all: there is more on a host than a model."""
    return url.rstrip("/") == (settings.llm_base_url or "").rstrip("/")


def _parse_keys(text: str) -> dict[str, str]:
    keys: dict[str, str] = {}
    for number, item in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
        host, separator, key = item.partition("=")
        if not separator or not host.strip() or not key.strip():
            # Not the item itself: it may be a key.
            raise BadModelSettings(f"Item {number} of THREADKEEP_LLM_HOST_KEYS is no HOST=KEY")
        keys[host.strip().lower()] = key.strip()
    return keys

"""Somebody else's AG-UI server as an agent: one POST, and its events as they come, each with the bytes that came.

Nothing of the caller goes upstream but the input of the run: no token, no cookie, no header.
"""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx
from ag_ui.core import RunAgentInput

from threadkeep.chat_history import AGUIAgent
from threadkeep.chat_history.ag_ui.recording import TERMINAL_TYPES
from threadkeep.chat_history.ag_ui.wire import WireEvent, WireInput, message_fields
from threadkeep.gateway.agents import BadAgent
from threadkeep.gateway.failures import AgentFailure, FailureCode
from threadkeep.gateway.inputs import RunBody
from threadkeep.gateway.sse import EventReader, EventTooLarge

CONNECT_SECONDS = 10.0
WRITE_SECONDS = 60.0
FINISH_SECONDS = 30.0
"""How long a server may keep its answer open after the terminal event."""
EVENT_BYTES = 64 * 1024 * 1024
"""The largest event that is read."""
_SHOWN = 300
"""Characters of an upstream's own words that an error message repeats."""


class Upstream:
    """An AG-UI server at `url`, as the source of the gateway's agents. `headers` go with every request to it.

    There is no read timeout: an agent may think for as long as it likes. A peer that has vanished is found by TCP.
    Raises BadAgent where `url` is none.
    """

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None) -> None:
        self._url = check_url(url)
        self._client = httpx.AsyncClient(
            headers={
                **(headers or {}),
                "Accept": "text/event-stream",
                "Accept-Encoding": "identity",
                "Content-Type": "application/json",
            },
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS, write=WRITE_SECONDS),
            follow_redirects=True,
            # A run keeps its connection for long, and a kept one may have died unseen: each run opens its own.
            transport=httpx.AsyncHTTPTransport(
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
                socket_options=_keepalive(),
            ),
        )
        self._finishing: set[asyncio.Task[None]] = set()

    def prepare(self, body: RunBody) -> tuple[WireInput, AGUIAgent]:
        """The input of the run, and the agent that carries it out."""
        return WireInput(body.fields), UpstreamAgent(self, body.members)

    async def send(self, content: bytes) -> httpx.Response:
        """The server's answer to a run, its body not yet read. Raises AgentFailure where there is none."""
        try:
            request = self._client.build_request("POST", self._url, content=content)
            return await self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            raise AgentFailure(f"The agent cannot be reached: {_reason(error)}", FailureCode.UNREACHABLE) from error

    def let_finish(self, response: httpx.Response, rest: AsyncIterator[bytes]) -> None:
        """Read a response to its end without anybody waiting for it.

        To hang up on a server that has sent its last event would cancel what it does behind that event.
        """
        task = asyncio.create_task(_read_to_end(response, rest))
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    async def aclose(self) -> None:
        """Close the connections."""
        for task in [*self._finishing]:
            task.cancel()
            await asyncio.wait([task])
        await self._client.aclose()


class UpstreamAgent(AGUIAgent):
    """One run on an AG-UI server. `members` is the JSON text of the input's members, which goes out as it came."""

    def __init__(self, upstream: Upstream, members: Mapping[str, str]) -> None:
        # What is behind the server calls itself what it likes, in its events.
        super().__init__("")
        self._upstream = upstream
        self._members = members

    async def run(self, input: RunAgentInput | WireInput) -> AsyncGenerator[Any, None]:
        """Send the input with its messages replaced by `input.messages`; yield each event up to the terminal one.

        Raises AgentFailure where the server cannot be reached, refuses, or answers with something else than events.
        """
        response = await self._upstream.send(request_body(input, self._members))
        is_over = False
        try:
            await _check_response(response)
            chunks = response.aiter_bytes()
            async with aclosing(_events(chunks)) as events:
                async for event in events:
                    is_over = event.type in TERMINAL_TYPES
                    if is_over:
                        self._upstream.let_finish(response, chunks)
                    yield event
                    if is_over:
                        return
        except httpx.HTTPError as error:
            raise AgentFailure(f"The agent's stream was cut off: {_reason(error)}", FailureCode.STREAM_CUT) from error
        except EventTooLarge as error:
            raise AgentFailure(f"The agent's stream cannot be read: {error}", FailureCode.BAD_STREAM) from error
        finally:
            if not is_over:
                await response.aclose()


async def _events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[WireEvent, None]:
    reader = EventReader(EVENT_BYTES)
    async for chunk in chunks:
        for data in reader.feed(chunk):
            yield _event(data)
    for data in reader.close():
        yield _event(data, last=True)


async def _read_to_end(response: httpx.Response, rest: AsyncIterator[bytes]) -> None:
    try:
        async with asyncio.timeout(FINISH_SECONDS):
            async for _ in rest:
                pass
    except (httpx.HTTPError, TimeoutError):
        pass
    finally:
        await response.aclose()


def request_body(input: RunAgentInput | WireInput, members: Mapping[str, str]) -> bytes:
    """The input as JSON: every member in the text in which it came, but for `messages`."""
    messages = json.dumps([message_fields(message) for message in input.messages], separators=(",", ":"))
    texts = {**members, "messages": messages}
    return ("{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in texts.items()) + "}").encode()


def check_url(url: str) -> str:
    """Raises BadAgent where it is no URL of a server."""
    try:
        parsed = httpx.URL(url)
        is_served = parsed.scheme in ("http", "https") and bool(parsed.host) and (parsed.port or 1) <= 65_535
    except httpx.InvalidURL:
        is_served = False
    if not is_served:
        raise BadAgent(f"{url!r} is no http or https URL of an AG-UI server")
    return url


async def _check_response(response: httpx.Response) -> None:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.is_success and kind == "text/event-stream":
        return
    if response.is_success:
        raise AgentFailure(
            f"The agent answered with {kind or 'no content type'} instead of text/event-stream", FailureCode.BAD_STREAM
        )
    said = f": {await _first_words(response)}" if kind in ("application/json", "text/plain") else ""
    answer = f"{response.status_code} {response.reason_phrase}".strip()
    raise AgentFailure(f"The agent answered {answer}{said}", FailureCode.REFUSED)


async def _first_words(response: httpx.Response) -> str:
    words = b""
    async for chunk in response.aiter_bytes():
        words += chunk
        if len(words) >= 4 * _SHOWN:
            break
    return words.decode("utf-8", "replace")[:_SHOWN]


def _event(data: bytes, *, last: bool = False) -> WireEvent:
    event = WireEvent(data)
    if event.is_object:
        return event
    if last:
        raise AgentFailure("The agent's stream was cut off in the middle of an event", FailureCode.STREAM_CUT)
    shown = data[:_SHOWN].decode("utf-8", "replace")
    raise AgentFailure(f"The agent sent an event that is no JSON object: {shown}", FailureCode.BAD_STREAM)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _keepalive() -> list[tuple[int, int, int]]:
    """Ask TCP to probe a silent peer after a minute, and to give it up after two."""
    wanted = {"TCP_KEEPIDLE": 60, "TCP_KEEPALIVE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
    probes = [(getattr(socket, name), value) for name, value in wanted.items() if hasattr(socket, name)]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *((socket.IPPROTO_TCP, *probe) for probe in probes)]

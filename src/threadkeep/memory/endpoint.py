"""One endpoint over HTTP: asked a few times at once, again where that may help, never longer than it may take.

An endpoint that wants to be left alone (`Retry-After`) is waited for where it is a matter of seconds, and given up for
now where it is not: whoever asks knows better when to come back. Redirects are not followed.
"""

import asyncio
import json
import logging
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from threadkeep import clock
from threadkeep.errors import ModelFailed

Json = dict[str, Any]
Pause = Callable[[float], Awaitable[object]]

_log = logging.getLogger("threadkeep.memory")
_LONGEST_WAIT = 10.0
_FIRST_WAIT = 0.5
_MOST_BYTES = 16 * 1024 * 1024
_PASSING = {408, 409, 425, 429, *range(500, 600)}
_REFUSED = {400, 422}
# A word such as insufficient_quota; a key is none.
_CODE = re.compile(r"[a-z]+(_[a-z]+)*")
_MEANINGS = {
    401: "the key is missing or wrong",
    403: "the key may not do this",
    404: "there is no such model or path",
    413: "the request is too large",
    429: "too many requests, or nothing left to spend",
}


class Rejected(ModelFailed):
    """The endpoint found fault with the request (400 or 422); `text` is what it said, not to be shown."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message, is_final=True)
        self.text = text


class Endpoint:
    """A base URL and the key for it. `timeout` is in seconds, for one request from beginning to end."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeout: float = 60.0,
        retries: int = 2,
        at_once: int = 4,
        transport: httpx.AsyncBaseTransport | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self.host = httpx.URL(base_url).host
        self._base_url = base_url.rstrip("/").removesuffix("/chat/completions")
        self._timeout = timeout
        self._retries = retries
        self._free = asyncio.Semaphore(at_once)
        self._pause = pause
        self._http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0)),
            limits=httpx.Limits(max_connections=at_once),
            follow_redirects=False,
            transport=transport,
            trust_env=transport is None,
        )

    async def post(self, path: str, body: Json) -> Json:
        """What the endpoint answers. Raises ModelFailed."""
        for attempt in range(self._retries + 1):
            try:
                async with self._free:
                    return await self._post_once(path, body)
            except ModelFailed as failure:
                wait = failure.retry_after or _FIRST_WAIT * 2**attempt * random.uniform(1, 1.5)
                if failure.is_final or attempt == self._retries or wait > _LONGEST_WAIT:
                    raise
                _log.info("asking %s again in %.1f s: %s", self.host, wait, failure)
            await self._pause(wait)
        raise AssertionError("unreachable")

    async def close(self) -> None:
        await self._http.aclose()

    async def _post_once(self, path: str, body: Json) -> Json:
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._http.stream("POST", self._base_url + path, json=body) as response,
            ):
                content = await self._read(response)
        except (TimeoutError, httpx.TimeoutException):
            raise ModelFailed(f"{self.host} gave no answer within {self._timeout:g} s") from None
        except httpx.InvalidURL:
            raise ModelFailed(f"{self.host!r} cannot be asked: its address is no URL", is_final=True) from None
        except (httpx.HTTPError, OSError) as error:
            # No cause: a transport's error may hold the request, and that holds the key.
            raise ModelFailed(f"{self.host} cannot be reached: {type(error).__name__}") from None
        if response.status_code != 200:
            raise self._failure(response, content)
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            return self._from_stream(content)
        return self._object(content)

    async def _read(self, response: httpx.Response) -> bytes:
        content = bytearray()
        async for piece in response.aiter_bytes():
            content += piece
            if len(content) > _MOST_BYTES:
                raise ModelFailed(f"{self.host} answered with more than {_MOST_BYTES:,} bytes", is_final=True)
        return bytes(content)

    def _object(self, content: bytes) -> Json:
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise ModelFailed(f"{self.host} answered with something other than a JSON object")
        return value

    def _from_stream(self, content: bytes) -> Json:
        """The whole answer, from an endpoint that streams though nobody asked it to."""
        text, refusal, finish = "", "", None
        is_done = False
        for line in content.decode("utf-8", "replace").splitlines():
            data = line.removeprefix("data:").strip()
            if not line.startswith("data:"):
                continue
            if data == "[DONE]":
                is_done = True
                break
            chunk = self._object(data.encode())
            if "error" in chunk:
                raise ModelFailed(f"{self.host} failed in the middle of its answer")
            try:
                for choice in chunk.get("choices") or ():
                    delta = choice.get("delta") or {}
                    text += delta.get("content") or ""
                    refusal += delta.get("refusal") or ""
                    finish = choice.get("finish_reason") or finish
            except (AttributeError, TypeError):
                raise ModelFailed(f"{self.host} streamed something other than pieces of text") from None
        if not is_done and finish is None:
            raise ModelFailed(f"{self.host} broke off in the middle of its answer")
        return {"choices": [{"message": {"content": text, "refusal": refusal or None}, "finish_reason": finish}]}

    def _failure(self, response: httpx.Response, content: bytes) -> ModelFailed:
        status = response.status_code
        if response.is_redirect:
            return ModelFailed(f"{self.host} answered {status}: redirects are not followed", is_final=True)
        code = _code_of(content)
        meaning = _MEANINGS.get(status, "it failed" if status >= 500 else "it refused")
        message = f"{self.host} answered {status}: {meaning}" + (f" ({code})" if code else "")
        if status in _REFUSED:
            return Rejected(message, content.decode("utf-8", "replace"))
        return ModelFailed(message, retry_after=_retry_after(response.headers), is_final=status not in _PASSING)


def _code_of(content: bytes) -> str | None:
    """The short code of an error, never its prose."""
    try:
        error = json.loads(content)["error"]
        code = error.get("code") or error.get("type")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from a header that gives seconds or a date."""
    text = headers.get("retry-after", "").strip()
    try:
        return max(float(text), 0.0) if text.replace(".", "", 1).isdigit() else _seconds_until(text)
    except (ValueError, TypeError):
        return None


def _seconds_until(text: str) -> float | None:
    if not text:
        return None
    return max((clock.from_datetime(parsedate_to_datetime(text)) - clock.now()) / 1_000_000, 0.0)

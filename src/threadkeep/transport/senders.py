"""Two thin senders, blocking and awaiting: a call goes out, the response comes back, whatever its status.

They raise what httpx raises; each client turns that into its own family of errors.
"""

import json
from collections.abc import Mapping
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import httpx

from threadkeep.transport.calls import Call, encode_params
from threadkeep.transport.target import Target

# Neither the credentials of a shared client nor those inside a URL may replace the call's own.
_NO_OTHER_AUTH = httpx.Auth()


def send(client: httpx.Client, target: Target, call: Call[Any]) -> httpx.Response:
    """Send, and wait for the whole answer."""
    request = _build_request(client, target, call)
    response = client.send(request, auth=_NO_OTHER_AUTH, follow_redirects=False)
    _forget_cookies(client, response)
    return response


async def send_async(client: httpx.AsyncClient, target: Target, call: Call[Any]) -> httpx.Response:
    """Send, and await the whole answer."""
    request = _build_request(client, target, call)
    response = await client.send(request, auth=_NO_OTHER_AUTH, follow_redirects=False)
    _forget_cookies(client, response)
    return response


def encode_json(value: Any) -> bytes:
    """JSON that carries any Python string, NUL and lone surrogates included.

    Raises ValueError for NaN and the infinities, which JSON cannot say.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # Only escapes can carry a lone surrogate; elsewhere they would double the size of most of the world's text.
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _build_request(client: httpx.Client | httpx.AsyncClient, target: Target, call: Call[Any]) -> httpx.Request:
    url = f"{target.base_url}/{call.path.lstrip('/')}"
    if call.params:
        url = f"{url}?{encode_params(call.params)}"
    headers = {"Accept": "application/json", **call.headers, **_authorization(target)}
    content = None
    if call.json is not None:
        headers["Content-Type"] = "application/json"
        content = encode_json(call.json)
    request = client.build_request(call.method, url, headers=headers, content=content)
    # A shared client may hold cookies of another principal.
    request.headers.pop("Cookie", None)
    return request


def _authorization(target: Target) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {target.token}"}


def _forget_cookies(client: httpx.Client | httpx.AsyncClient, response: httpx.Response) -> None:
    if "Set-Cookie" not in response.headers:
        return
    for cookie in response.cookies.jar:
        try:
            client.cookies.jar.clear(cookie.domain, cookie.path, cookie.name)
        except KeyError:
            continue


def refuse_cookies(client: httpx.Client | httpx.AsyncClient) -> None:
    """Make a client of our own store no cookie at all."""
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))

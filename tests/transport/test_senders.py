"""Senders: what really goes out, blocking and awaiting."""

import json

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.transport import calls
from threadkeep.transport.senders import encode_json, send, send_async
from threadkeep.transport.target import Target

ALICE = Target("http://t.test/api/v2/memory", "alice")
BOB = Target("http://t.test/api/v2/memory", "bob")
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON_VALUES)
def test_any_json_value_survives_with_any_string_in_it(value: object) -> None:
    assert json.loads(encode_json(value)) == value


def test_text_goes_out_as_utf_8_and_only_a_lone_surrogate_as_an_escape() -> None:
    assert encode_json({"a": "€\x00"}) == b'{"a":"\xe2\x82\xac\\u0000"}'
    assert encode_json("\ud83d") == b'"\\ud83d"'


def test_a_number_that_json_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_json({"a": float("nan")})


def test_the_url_keeps_every_escape_of_the_call() -> None:
    seen: list[httpx.Request] = []
    with httpx.Client(
        transport=httpx.MockTransport(lambda request: seen.append(request) or httpx.Response(200))
    ) as client:
        send(client, ALICE, calls.list_sessions("a/b", description="//x%2Fy/", participants=["p+q"]))
        send(client, ALICE, calls.get_space(".."))
    assert [request.url.raw_path for request in seen] == [
        b"/api/v2/memory/a%2Fb/sessions/?participants=p%2Bq&description=%2F%2Fx%252Fy%2F",
        b"/api/v2/memory/%2E%2E/",
    ]


async def test_principals_that_share_a_client_keep_their_own_authorization_and_no_cookie() -> None:
    seen: list[httpx.Headers] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers)
        return httpx.Response(200, headers={"Set-Cookie": f"who={request.headers['Authorization']}; Path=/"})

    async with httpx.AsyncClient(
        transport=httpx.MockTransport(answer),
        headers={"Authorization": "Basic of-the-client"},
        auth=("user", "password"),
        cookies={"mine": "1"},
    ) as client:
        for target in (ALICE, BOB, ALICE):
            await send_async(client, target, calls.list_spaces())
        assert dict(client.cookies) == {"mine": "1"}
    assert [headers["Authorization"] for headers in seen] == ["Bearer alice", "Bearer bob", "Bearer alice"]
    assert all("Cookie" not in headers for headers in seen)


def test_a_redirect_is_not_followed_since_it_would_lose_the_body_or_the_token() -> None:
    redirect = httpx.MockTransport(lambda request: httpx.Response(302, headers={"Location": "http://elsewhere.test/"}))
    with httpx.Client(transport=redirect, follow_redirects=True) as client:
        assert send(client, ALICE, calls.create_space({})).status_code == 302

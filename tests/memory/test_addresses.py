"""Where models may be asked that the owner of a space has named."""

import ipaddress
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from threadkeep.errors import AddressRefused
from threadkeep.memory.addresses import Allowance, BadAllowance, GuardedTransport, resolve_name
from threadkeep.testing.openai_server import OpenAIServer, Raw, Reply

ANYWHERE = Allowance.parse("*:*", "")


class Names:
    """Names and what they lead to, and which were asked for. A name leads elsewhere each time it is asked for."""

    def __init__(self, **addresses: Sequence[Sequence[str]]) -> None:
        self.addresses = {name: list(each) for name, each in addresses.items()}
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        left = self.addresses[host]
        return left.pop(0) if len(left) > 1 else left[0]


@pytest.mark.parametrize(
    ("hosts", "url", "is_allowed"),
    [
        ("", "https://api.example.com/v1", False),
        ("api.example.com", "https://api.example.com/v1", True),
        ("api.example.com", "https://API.example.com./v1", True),
        ("api.example.com", "http://api.example.com/v1", True),
        ("api.example.com", "https://api.example.com:8443/v1", False),
        ("api.example.com:8443", "https://api.example.com:8443/v1", True),
        ("api.example.com:8443", "https://api.example.com/v1", False),
        ("api.example.com", "https://api.example.com.evil.test/v1", False),
        ("api.example.com", "https://evil.test/api.example.com", False),
        ("api.example.com", "https://api.example.com@evil.test/v1", False),
        ("*.example.com", "https://a.b.example.com/v1", True),
        ("*.example.com", "https://example.com/v1", False),
        ("*.example.com", "https://evilexample.com/v1", False),
        ("x.test, *", "https://anything.at.all/v1", True),
        ("*", "https://anything.at.all:22/v1", False),
        ("*:*", "https://anything.at.all:22/v1", True),
        ("*", "ftp://api.example.com/v1", False),
        ("*", "file:///etc/passwd", False),
        ("*", "/v1", False),
        ("*", "https://user:password@api.example.com/v1", False),
        ("b\u00fccher.test", "https://b\u00fccher.test/v1", False),
        ("xn--bcher-kva.test", "https://b\u00fccher.test/v1", True),
        ("[::1]:8000", "http://[::1]:8000/v1", True),
        ("[::1]", "http://[::1]/v1", True),
    ],
)
def test_only_hosts_on_the_operators_list_may_be_named(hosts: str, url: str, is_allowed: bool) -> None:
    allowance = Allowance.parse(hosts, "")
    if is_allowed:
        allowance.check_url(httpx.URL(url))
    else:
        with pytest.raises(AddressRefused):
            allowance.check_url(httpx.URL(url))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
    ],
)
def test_addresses_that_are_not_public_are_refused_unless_their_network_is_allowed(address: str) -> None:
    assert not ANYWHERE.permits(address)
    with pytest.raises(AddressRefused, match=r"name\.test leads to an address that is not public"):
        ANYWHERE.check_address("name.test", address)
    inner = Allowance.parse("*", "0.0.0.0/0, ::/0")
    assert inner.permits(address)
    assert isinstance(inner.networks[0], ipaddress.IPv4Network)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34"])
def test_public_addresses_are_permitted(address: str) -> None:
    assert ANYWHERE.permits(address)


def test_an_allowed_network_allows_no_other() -> None:
    allowance = Allowance.parse("*", "10.1.0.0/16")
    assert allowance.permits("10.1.255.1")
    assert not allowance.permits("10.2.0.1")


@pytest.mark.parametrize(("hosts", "networks"), [("https://x.test/", ""), ("", "10.0.0.1/8"), ("", "ten")])
def test_a_list_that_cannot_be_read_is_refused_at_the_start(hosts: str, networks: str) -> None:
    with pytest.raises(BadAllowance, match="is no "):
        Allowance.parse(hosts, networks)


async def post(transport: GuardedTransport, url: str, **options: Any) -> httpx.Response:
    async with httpx.AsyncClient(transport=transport, **options) as client:
        return await client.post(f"{url}/chat/completions", json={"messages": []})


def port_of(server: OpenAIServer) -> int:
    return int(httpx.URL(server.url).port or 0)


async def test_a_name_is_looked_up_once_and_the_connection_goes_to_the_address_that_was_checked() -> None:
    with OpenAIServer([], always=Reply(text=["hi"])) as server:
        names = Names(**{"llm.test": [["127.0.0.1"], ["10.0.0.1"]]})
        transport = GuardedTransport(Allowance.parse("llm.test:*", "127.0.0.0/8"), resolve=names.resolve)
        answer = await post(transport, f"http://llm.test:{port_of(server)}/v1")

    assert answer.status_code == 200
    assert server.headers[0]["host"] == f"llm.test:{port_of(server)}"
    assert names.asked == ["llm.test"]


async def test_a_name_that_was_public_a_moment_ago_is_not_reached_where_it_leads_inside_now() -> None:
    with OpenAIServer([], always=Reply(text=["hi"])) as server:
        names = Names(**{"llm.test": [["127.0.0.1"]]})
        transport = GuardedTransport(Allowance.parse("*:*", ""), resolve=names.resolve)
        with pytest.raises(AddressRefused, match="not public; THREADKEEP_LLM_ALLOWED_NETWORKS"):
            await post(transport, f"http://llm.test:{port_of(server)}/v1")

    assert server.requests == []


async def test_one_inner_address_among_public_ones_is_enough_to_refuse() -> None:
    names = Names(**{"llm.test": [["93.184.216.34", "169.254.169.254"]]})
    with pytest.raises(AddressRefused):
        await post(GuardedTransport(ANYWHERE, resolve=names.resolve), "http://llm.test/v1")


@pytest.mark.parametrize("host", ["127.0.0.1", "0x7f.1", "2130706433", "127.1", "[::ffff:127.0.0.1]", "localhost"])
async def test_no_spelling_of_an_inner_address_gets_through(host: str) -> None:
    with OpenAIServer([], always=Reply(text=["hi"])) as server, pytest.raises((AddressRefused, httpx.ConnectError)):
        await post(GuardedTransport(ANYWHERE), f"http://{host}:{port_of(server)}/v1")
    assert server.requests == []


async def test_a_host_off_the_list_is_not_even_looked_up() -> None:
    names = Names()
    with pytest.raises(AddressRefused, match=r"asked at evil\.test:443; THREADKEEP_LLM_ALLOWED_HOSTS"):
        await post(GuardedTransport(Allowance.parse("llm.test", ""), resolve=names.resolve), "https://evil.test/v1")
    assert names.asked == []


async def test_a_redirect_leads_nowhere() -> None:
    elsewhere = Raw(b"", 307, {"Location": "http://169.254.169.254/latest/meta-data/"})
    with OpenAIServer([elsewhere]) as server:
        transport = GuardedTransport(Allowance.parse("*:*", "127.0.0.0/8"))
        answer = await post(transport, f"http://127.0.0.1:{port_of(server)}/v1")
        assert answer.status_code == 307
        with pytest.raises(AddressRefused):
            # Not even where somebody follows it.
            await transport.handle_async_request(httpx.Request("POST", answer.headers["location"]))


async def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    with OpenAIServer([], always=Reply(text=["hi"])) as server:
        names = Names(**{"llm.test": [["::1", "127.0.0.1"]]})
        transport = GuardedTransport(Allowance.parse("*:*", "127.0.0.0/8, ::1/128"), resolve=names.resolve)
        answer = await post(transport, f"http://llm.test:{port_of(server)}/v1")
    assert answer.status_code == 200


async def test_a_name_without_an_address_cannot_be_reached() -> None:
    with pytest.raises(httpx.ConnectError, match="cannot be resolved"):
        await resolve_name("no-such-name.invalid", 443)
    with pytest.raises(httpx.ConnectError, match="has no address"):
        await post(GuardedTransport(ANYWHERE, resolve=Names(**{"a.test": [[]]}).resolve), "http://a.test/v1")


async def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer([], always=Reply(text=["hi"])) as proxy, OpenAIServer([], always=Reply(text=["hi"])) as server:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port_of(proxy)}")
        names = Names(**{"llm.test": [["127.0.0.1"]]})
        transport = GuardedTransport(Allowance.parse("*:*", "127.0.0.0/8"), resolve=names.resolve)
        await post(transport, f"http://llm.test:{port_of(server)}/v1", trust_env=False)
    assert len(server.headers) == 1
    assert proxy.headers == []

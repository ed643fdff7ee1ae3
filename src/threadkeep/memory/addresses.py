"""Which addresses a model may be asked at that the owner of a space has chosen.

A server that asks wherever it is told to can be made to read what only it can reach: a cloud's metadata, a service on
its own network. So a host has to be on the operator's list, and what its name means is checked at each connection:
the connection goes to the very address that was checked, whatever the name means a moment later.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Self

import httpx

from threadkeep.errors import AddressRefused, ThreadkeepError

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
_PORTS = {"https": 443, "http": 80}
_NAT64 = IPv6Network("64:ff9b::/96")


class BadAllowance(ThreadkeepError, ValueError):
    """A list of hosts or networks that cannot be read."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the operator allows; nothing by default.

    `hosts` are names: `api.example.com`, `*.example.com` (not `example.com` itself), `*`; each with the usual port of
    its scheme, or with the port that it says (`llm.example.com:8443`, `*:*`).
    `networks` are those that are not public and may be reached all the same: `10.0.0.0/8`.
    """

    hosts: tuple[str, ...] = ()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def parse(cls, hosts: str, networks: str) -> Self:
        """From two lists with commas between. Raises BadAllowance."""
        found = []
        for text in _items(networks):
            try:
                found.append(ip_network(text))
            except ValueError as error:
                raise BadAllowance(f"{text!r} is no network such as 10.0.0.0/8: {error}") from None
        names = tuple(_items(hosts.lower()))
        for name in names:
            if "/" in name or "@" in name:
                raise BadAllowance(
                    f"{name!r} is no host such as api.example.com, *.example.com or llm.example.com:8443"
                )
        return cls(names, tuple(found))

    def check_url(self, url: httpx.URL) -> None:
        """Raise AddressRefused where the operator has not allowed the host, or it is no plain HTTP address."""
        if url.scheme not in _PORTS or not url.host:
            raise AddressRefused("An llmBaseUrl is an address such as https://api.example.com/v1")
        if url.userinfo:
            raise AddressRefused("An llmBaseUrl holds no user and no password: the operator has the keys")
        host = _host_of(url).rstrip(".")
        port = url.port or _PORTS[url.scheme]
        if not any(_matches(entry, host, port, _PORTS[url.scheme]) for entry in self.hosts):
            raise AddressRefused(
                f"The operator does not let models be asked at {host}:{port}; THREADKEEP_LLM_ALLOWED_HOSTS says where"
            )

    def check_address(self, host: str, address: str) -> None:
        """Raise AddressRefused where the address that a name means is not public, nor in a network that is allowed."""
        if not self.permits(address):
            raise AddressRefused(
                f"{host} leads to an address that is not public; THREADKEEP_LLM_ALLOWED_NETWORKS says which may be used"
            )

    def permits(self, address: str) -> bool:
        """Whether the address is public or in a network that is allowed."""
        parsed = _inmost(ip_address(address))
        if any(parsed.version == network.version and parsed in network for network in self.networks):
            return True
        return parsed.is_global and not parsed.is_multicast and not parsed.is_reserved


class GuardedTransport(httpx.AsyncBaseTransport):
    """Sends requests to allowed addresses only. Keep one for each host: connections are kept by their address."""

    def __init__(self, allowance: Allowance, *, resolve: Resolve | None = None) -> None:
        self._allowance = allowance
        self._resolve = resolve or resolve_name
        # No proxy of the environment: it would look the name up anew, behind the check.
        self._inner = httpx.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises AddressRefused, httpx.TransportError."""
        url = request.url
        self._allowance.check_url(url)
        host = _host_of(url)
        addresses = await self._resolve(host, url.port or _PORTS[url.scheme])
        for address in addresses:
            self._allowance.check_address(host, address)
        for last, address in enumerate(addresses, 1 - len(addresses)):
            try:
                return await self._inner.handle_async_request(_sent_to(request, address))
            except httpx.ConnectError:
                if last == 0:
                    raise
        raise httpx.ConnectError(f"{host} has no address", request=request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def resolve_name(host: str, port: int) -> list[str]:
    """The addresses of a name, each once. Raises httpx.ConnectError where it has none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpx.ConnectError(f"{host} cannot be resolved") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _sent_to(request: httpx.Request, address: str) -> httpx.Request:
    """The same request on its way to an address: it names the host as before, in its headers and to TLS."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": _host_of(request.url)},
    )


def _host_of(url: httpx.URL) -> str:
    """The host as it goes over the wire: in ASCII, without brackets."""
    return url.raw_host.decode("ascii").lower().strip("[]")


def _inmost(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 one stands for, where it does."""
    if isinstance(address, IPv6Address):
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
        return address.ipv4_mapped or address.sixtofour or address
    return address


def _matches(entry: str, host: str, port: int, usual: int) -> bool:
    name, separator, wanted = entry.rpartition(":")
    if not separator or not (wanted.isdigit() or wanted == "*"):
        name, wanted = entry, str(usual)
    if wanted not in ("*", str(port)):
        return False
    name = name.strip("[]")
    if name.startswith("*"):
        return host.endswith(name[1:]) and len(host) > len(name) - 1
    return host == name


def _items(text: str) -> list[str]:
    return [item for item in (part.strip() for part in text.split(",")) if item]

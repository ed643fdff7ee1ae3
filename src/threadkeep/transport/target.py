"""Where calls go and as whom: endpoint and token, from arguments or the environment."""

import os
from dataclasses import dataclass, field

import httpx

ENDPOINT_VARIABLES = ("THREADKEEP_ENDPOINT", "DATAROBOT_ENDPOINT")
TOKEN_VARIABLES = ("THREADKEEP_API_TOKEN", "DATAROBOT_API_TOKEN")


@dataclass(frozen=True, slots=True)
class Target:
    """`base_url` has no slash at its end; the paths of calls are relative to it.

    `root` is the same target without the base path: the API that the service is a part of.
    """

    base_url: str
    token: str = field(repr=False)
    endpoint: str = ""

    @property
    def root(self) -> "Target":
        return Target(self.endpoint, self.token, self.endpoint)


def find_target(endpoint: str | None = None, token: str | None = None, base_path: str = "memory") -> Target:
    """Take what was given, and look in the environment for the rest.

    Raises ValueError where one is missing (it names the variables) or unusable.
    """
    endpoint = endpoint or _from_environment(ENDPOINT_VARIABLES)
    token = token or _from_environment(TOKEN_VARIABLES)
    if not endpoint:
        raise ValueError(
            f"No endpoint: pass one such as http://127.0.0.1:8421/api/v2, or set {_or(ENDPOINT_VARIABLES)}"
        )
    if not token:
        raise ValueError(f"No API token: pass one, or set {_or(TOKEN_VARIABLES)}")
    endpoint = endpoint.strip().rstrip("/")
    base_url = "/".join(part for part in (endpoint, base_path.strip("/")) if part)
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ValueError(f"The endpoint {endpoint!r} is not a URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"The endpoint {endpoint!r} is not an absolute http or https URL")
    token = token.strip()
    if not (token.isascii() and token.isprintable() and token):
        raise ValueError("The API token holds characters that no HTTP header can carry")
    return Target(base_url, token, endpoint)


def _from_environment(names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


def _or(names: tuple[str, ...]) -> str:
    return " or ".join(names)

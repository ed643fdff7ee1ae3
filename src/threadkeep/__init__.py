"""Threadkeep keeps what AI agents and people say to each other.

The light client (`threadkeep.models`, `threadkeep.persistence`) needs httpx and pydantic only;
the rest comes with extras.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadkeep.models.client import Client

__all__ = ["Client"]


def __getattr__(name: str) -> Any:
    # The server and the command line import this package too, and have no use for httpx.
    if name == "Client":
        from threadkeep.models.client import Client

        return Client
    raise AttributeError(f"module 'threadkeep' has no attribute {name!r}")

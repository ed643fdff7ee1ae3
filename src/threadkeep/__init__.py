"""Threadkeep keeps what AI agents and people say to each other.

The clients (`threadkeep.models`, `threadkeep.persistence`) need httpx and pydantic only;
the rest comes with extras.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadkeep.models.client import Client

__all__ = ["Client", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Whoever imports a part of the package imports this file too, and may have no use for httpx.
    if name == "Client":
        from threadkeep.models.client import Client

        return Client
    raise AttributeError(f"module 'threadkeep' has no attribute {name!r}")

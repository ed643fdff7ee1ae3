"""Threadkeep keeps what AI agents and people say to each other.

The clients (`threadkeep.models`, `threadkeep.persistence`) need httpx and pydantic only;
the rest comes with extras.
"""

__version__ = "0.1.0"

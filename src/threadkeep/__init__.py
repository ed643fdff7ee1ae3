"""Threadkeep keeps what AI agents and people say to each other.

The light client (`threadkeep.models`, `threadkeep.persistence`) needs httpx and pydantic only; the rest comes with extras.
"""

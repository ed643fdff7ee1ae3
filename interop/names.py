"""The two packages under one set of names: a scenario takes its imports from a root, and nothing else differs."""

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType


@dataclass(frozen=True)
class Root:
    """The modules that an application imports.

    Attributes:
        name: which package it is.
        package: has `Client`, the connection of the synchronous SDK.
        errors: what the synchronous SDK raises.
        models: the synchronous SDK.
        persistence: the async ORM.
        chat_history: AG-UI chat history.
    """

    name: str
    package: ModuleType
    errors: ModuleType
    models: ModuleType
    persistence: ModuleType
    chat_history: ModuleType


def published() -> Root:
    """The package from PyPI."""
    return _root("datarobot", "datarobot.application_utils")


def ours() -> Root:
    """Threadkeep."""
    return _root("threadkeep", "threadkeep")


def _root(package: str, application: str) -> Root:
    return Root(
        package,
        import_module(package),
        import_module(f"{package}.errors"),
        import_module(f"{package}.models.memory"),
        import_module(f"{application}.persistence"),
        import_module(f"{application}.chat_history"),
    )

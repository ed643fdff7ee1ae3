"""The options that say which models are asked; serving and working take the same."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from threadkeep.cli.running import setting

F = TypeVar("F", bound=Callable[..., Any])


def model_settings(command: F) -> F:
    """Give a command the options of the language model and of the embedder."""
    options: list[tuple[str, dict[str, Any]]] = [
        ("llm_base_url", {}),
        ("llm_model", {}),
        ("llm_api_key", {}),
        ("llm_allowed_hosts", {}),
        ("llm_allowed_networks", {}),
        ("llm_host_keys", {}),
        ("llm_timeout", {"type": click.IntRange(min=1)}),
        ("llm_at_once", {"type": click.IntRange(min=1)}),
        ("llm_attempts", {"type": click.IntRange(min=1)}),
        ("embedding_model", {}),
        ("embedding_base_url", {}),
        ("embedding_api_key", {}),
    ]
    for name, more in reversed(options):
        command = setting(name, **more)(command)
    return command

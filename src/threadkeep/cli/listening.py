"""The socket that a server listens on, and what is printed of it."""

import os
import socket
from collections.abc import Callable

from threadkeep.errors import ThreadkeepError

_BACKLOG = 2048

Announce = Callable[[str, str | None], None]
"""Called when the server listens, with its URL and the secret of a token that was made because there was none."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections from now on. Raises ThreadkeepError, which says why it cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ThreadkeepError(f"Cannot listen on {host}:{port}: {_reason(error)}") from error
    listener.setblocking(False)
    return listener


def url_of(host: str, listener: socket.socket) -> str:
    """Where clients reach it."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def _reason(error: OSError) -> str:
    # asyncio and socket add the address to the text, which the message has already.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)

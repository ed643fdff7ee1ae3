"""Which pages of other origins may call the server, as browsers ask it (CORS). Without origins: none."""

import re

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from threadkeep.errors import Invalid

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s@*,]+")
_METHODS = ("GET", "HEAD", "POST", "PATCH", "DELETE")
_SHOWN = ("X-Request-ID", "Retry-After", "Location")
_ASK_AGAIN_SECONDS = 600


def allow_origins(app: ASGIApp, origins: str | None) -> ASGIApp:
    """The application as pages of these origins may call it: `https://app.example.com`, commas between, or `*`.

    Nothing depends on cookies here, so that pages may not send any. Raises Invalid where one is no origin.
    """
    names = [name for name in map(str.strip, (origins or "").split(",")) if name]
    if not names:
        return app
    for name in names:
        if name != "*" and not _ORIGIN.fullmatch(name):
            raise Invalid(f"{name!r} is no origin; one reads https://app.example.com, without a path")
    return CORSMiddleware(
        app,
        allow_origins=names,
        allow_methods=_METHODS,
        allow_headers=["*"],
        expose_headers=_SHOWN,
        max_age=_ASK_AGAIN_SECONDS,
    )

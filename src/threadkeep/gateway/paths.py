"""Where a request stands below the place at which the gateway is mounted. Pure."""

from urllib.parse import quote, unquote

from starlette.types import Scope


def below_mount(scope: Scope) -> Scope:
    """A copy of the scope with both paths whole and as they were sent, and `root_path` up to the mount.

    Hosts differ: Starlette and FastAPI leave the path whole and name the mount in `root_path`, Litestar cuts the path
    and leaves `root_path` as it was. A `%2F` inside an id is told from a slash only by the path as it was sent.
    """
    if scope["type"] not in ("http", "websocket"):
        return dict(scope)
    path, root = scope["path"], scope.get("root_path", "")
    inside = path[len(root) :] if root and path.startswith(root) and path[len(root) :][:1] in ("", "/") else path
    sent = (scope.get("raw_path") or b"").decode("ascii", "replace").partition("?")[0] or quote(path)
    mount = _mount_of(sent, inside or "/")
    if mount is None and inside.endswith("/"):
        # Litestar ends every path below a mount in a slash; whether one was sent is ours to judge.
        mount = _mount_of(sent, inside[:-1])
    if mount is None:
        # The host has changed the path; what it hands on is what counts.
        mount, sent = quote(root), quote(root) + quote(inside or "/")
    return {**scope, "path": sent, "raw_path": sent.encode("ascii", "replace"), "root_path": mount}


def _mount_of(sent: str, inside: str) -> str | None:
    """What of the path that was sent comes before the part that is, decoded, `inside`."""
    at = sent.find("/")
    while at >= 0:
        if unquote(sent[at:]) == inside:
            return sent[:at]
        at = sent.find("/", at + 1)
    return None

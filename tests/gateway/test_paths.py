"""Where a request stands below a mount."""

import pytest
from starlette.types import Scope

from threadkeep.gateway.paths import below_mount


def scope(path: str, raw: bytes | None, root: str = "") -> Scope:
    return {"type": "http", "path": path, "raw_path": raw, "root_path": root}


@pytest.mark.parametrize(
    ("given", "path", "root"),
    [
        (scope("/threads/", b"/threads/"), "/threads/", ""),
        (scope("/agui/threads/a/b/", b"/agui/threads/a%2Fb/", "/agui"), "/agui/threads/a%2Fb/", "/agui"),
        (scope("/threads/a/b/", b"/agui/threads/a%2Fb/"), "/agui/threads/a%2Fb/", "/agui"),
        (scope("/threads/", b"/x/agui/threads/", "/x"), "/x/agui/threads/", "/x/agui"),
        (scope("/büro/x/", b"/b%C3%BCro/x/", "/büro"), "/b%C3%BCro/x/", "/b%C3%BCro"),
        (scope("/agui/", b"/agui/", "/agui"), "/agui/", "/agui"),
        (scope("/agui/agui/", b"/agui/agui/", "/agui"), "/agui/agui/", "/agui"),
        (scope("/aguish/x/", b"/aguish/x/", "/agui"), "/aguish/x/", ""),
        (scope("/", b"/agui"), "/", ""),
        (scope("/threads/a/b/", b"/agui/threads/a%2Fb"), "/agui/threads/a%2Fb", "/agui"),
        (scope("/agui/a b/", None, "/agui"), "/agui/a%20b/", "/agui"),
        (scope("/moved/x/", b"/agui/y/", "/moved"), "/moved/x/", "/moved"),
        (scope("/x/", b"/agui/x/?q=/x/"), "/agui/x/", "/agui"),
    ],
)
def test_the_path_is_as_it_was_sent_and_the_root_ends_at_the_mount(given: Scope, path: str, root: str) -> None:
    seen = below_mount(given)
    assert (seen["path"], seen["raw_path"], seen["root_path"]) == (path, path.encode(), root)


def test_what_the_host_holds_is_not_changed() -> None:
    given = scope("/threads/", b"/agui/threads/")
    below_mount(given)
    assert given == scope("/threads/", b"/agui/threads/")

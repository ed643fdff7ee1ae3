"""What a user does, by topic. A scenario is a function of a root; it asserts what the user would see."""

from collections.abc import Awaitable, Callable

from interop.names import Root

Scenario = Callable[[Root], Awaitable[None] | None]

"""Lists on the wire."""

from typing import Generic, NotRequired, TypedDict, TypeVar

T = TypeVar("T")


class Page(TypedDict, Generic[T]):
    """A page of a list. `nextCursor` is there where a cursor was sent, and null at the end."""

    items: list[T]
    total: int
    offset: int
    limit: int
    nextCursor: NotRequired[str | None]


class Items(TypedDict, Generic[T]):
    """The answer to a batch."""

    items: list[T]


class Patched(Items[T]):
    """The answer to a batch of changes that appended events as well."""

    appended: list[T]

"""Lists on the wire."""

from typing import Generic, TypedDict, TypeVar

T = TypeVar("T")


class Page(TypedDict, Generic[T]):
    """A page of a list."""

    items: list[T]
    total: int
    offset: int
    limit: int


class Items(TypedDict, Generic[T]):
    """The answer to a batch."""

    items: list[T]

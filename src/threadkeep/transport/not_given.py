"""The absence of an argument, where `None` already means "clear it"."""

from enum import Enum
from typing import Final, Literal


class NotGiven(Enum):
    """Its one member, `NOT_GIVEN`, is the default of arguments that may be `None`."""

    NOT_GIVEN = "not given"

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Final[Literal[NotGiven.NOT_GIVEN]] = NotGiven.NOT_GIVEN

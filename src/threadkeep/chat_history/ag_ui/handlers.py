"""Which handler method an event goes to: by its class and its bases, or by its type where it came as JSON."""

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache

import ag_ui.core
from ag_ui.core import BaseEvent

Handlers = Mapping[type[BaseEvent] | str, str]

_FAMILIES = {
    "handle_text_message": (
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TEXT_MESSAGE_CHUNK",
    ),
    "handle_tool_call": (
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "TOOL_CALL_CHUNK",
    ),
    "handle_reasoning": (
        "REASONING_START",
        "REASONING_END",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_MESSAGE_CHUNK",
        "REASONING_ENCRYPTED_VALUE",
        "THINKING_START",
        "THINKING_END",
        "THINKING_TEXT_MESSAGE_START",
        "THINKING_TEXT_MESSAGE_CONTENT",
        "THINKING_TEXT_MESSAGE_END",
    ),
    "handle_run_lifecycle": ("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"),
    "handle_step": ("STEP_STARTED", "STEP_FINISHED"),
    "handle_messages_snapshot": ("MESSAGES_SNAPSHOT",),
}
_HANDLER_OF_TYPE = {kind: handler for handler, kinds in _FAMILIES.items() for kind in kinds}


def default_handlers() -> dict[type[BaseEvent] | str, str]:
    """The handlers of the protocol's own events, by the classes that the installed release of it has."""
    return dict(_default_classes())


class Routes:
    """The handler of each event, for one table of handlers."""

    def __init__(self, handlers: Handlers) -> None:
        self._by_class = {key: name for key, name in handlers.items() if not isinstance(key, str)}
        # A type whose class the installed release lacks (THINKING_* under 1.0) still comes as JSON.
        present = {kind for cls, _ in _default_classes() if (kind := _type_of(cls)) is not None}
        self._by_type = {kind: name for kind, name in _HANDLER_OF_TYPE.items() if kind not in present}
        for cls, name in self._by_class.items():
            # Of events that share a type with their base class, JSON does not tell which they are.
            if (kind := _type_of(cls)) is not None and all(_type_of(base) != kind for base in _bases(cls)):
                self._by_type[kind] = name
        self._by_type.update({key: name for key, name in handlers.items() if isinstance(key, str)})
        self._found: dict[type, str | None] = {}

    def handler_of(self, event: object, kind: str) -> str | None:
        """The name of the method for an event of type `kind`; None where nobody asked for it."""
        cls = type(event)
        if cls in self._found:
            return self._found[cls] or self._by_type.get(kind)
        name = next((self._by_class[base] for base in cls.__mro__ if base in self._by_class), None)
        self._found[cls] = name
        return name or self._by_type.get(kind)


@lru_cache(maxsize=1)
def _default_classes() -> tuple[tuple[type[BaseEvent], str], ...]:
    found = []
    for kind, handler in _HANDLER_OF_TYPE.items():
        name = "".join(word.capitalize() for word in kind.split("_")) + "Event"
        cls = getattr(ag_ui.core, name, None)
        if isinstance(cls, type) and issubclass(cls, BaseEvent):
            found.append((cls, handler))
    return tuple(found)


def _bases(cls: type[BaseEvent]) -> list[type[BaseEvent]]:
    return [base for base in cls.__mro__[1:] if issubclass(base, BaseEvent)]


def _type_of(cls: type[BaseEvent]) -> str | None:
    """The type that a class of events stands for."""
    field = cls.model_fields.get("type")
    kind = field.default if field is not None else None
    if isinstance(kind, Enum):
        kind = kind.value
    return kind if isinstance(kind, str) else None

"""The field cases of `tests/cases` about AG-UI: how to read them, and how to compare history with what they expect."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from threadkeep.chat_history import Message

FOLDER = Path(__file__).parent.parent / "cases"


def load_cases() -> dict[str, dict[str, Any]]:
    """All cases of part c by id, with `$repeat` written out. The other parts are tested where their feature is."""
    cases = {path.stem: _expanded(json.loads(path.read_text())) for path in sorted(FOLDER.glob("*.json"))}
    return {name: case for name, case in cases.items() if case["part"] == "c"}


def history_of(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """History in the shape that cases speak of."""
    return [
        {
            "role": message.role.value,
            "content": message.activity if message.role == "activity" else message.parts or message.content,
            "activity_type": message.activity_type,
            "status": message.status.value,
            "name": message.name,
            "step": message.step,
            "tool_calls": [
                {
                    "id": call.agui_id,
                    "name": call.name,
                    "arguments": call.arguments,
                    "content": call.content,
                    "status": call.status.value,
                    "error": call.error,
                }
                for call in message.tool_calls
            ],
            "reasonings": [
                {
                    "content": step.content,
                    "status": step.status.value,
                    "encrypted_value": step.encrypted_value,
                }
                for step in message.reasonings
            ],
        }
        for message in messages
    ]


def pick(actual: Any, expected: Any) -> Any:
    """The actual history without the keys that a case says nothing about."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return {key: pick(actual.get(key), value) for key, value in expected.items()}
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return [pick(*pair) for pair in zip(actual, expected, strict=True)]
    return actual


def _expanded(value: Any) -> Any:
    if isinstance(value, dict):
        if "$repeat" in value:
            text, count = value["$repeat"]
            return text * count
        return {key: _expanded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_expanded(each) for each in value]
    return value

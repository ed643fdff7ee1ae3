"""What chat APIs refuse, as the documentation of two of them says it; written apart from the repair that it judges.

A history is given as AG-UI messages under their wire names.
"""

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

Fields = dict[str, Any]


def complaints(history: Sequence[Fields], *, alternate: bool = False, unsigned: bool = False) -> list[str]:
    """Everything that one of the APIs would refuse. `unsigned` lets reasonings be plain text."""
    return [
        *_calls_and_results(history),
        *_ids(history),
        *_blank(history),
        *_reasonings(history, unsigned),
        *(_turns(history) if alternate else []),
    ]


def _calls_and_results(history: Sequence[Fields]) -> list[str]:
    """The results of a message's calls come right behind it: each one, once, in the order of the calls."""
    found: list[str] = []
    at = 0
    while at < len(history):
        message = history[at]
        at += 1
        wanted = []
        for call in message.get("toolCalls") or []:
            wanted.append(call["id"])
            found += _arguments(call)
            if not call["function"]["name"].strip():
                found.append(f"call {call['id']!r} has no name")
        got = []
        while at < len(history) and history[at]["role"] == "tool":
            got.append(history[at]["toolCallId"])
            at += 1
        if wanted and message["role"] != "assistant":
            found.append(f"a {message['role']} message has calls")
        if wanted != got:
            found.append(f"calls {wanted} are followed by results {got}")
    return found


def _arguments(call: Fields) -> list[str]:
    try:
        is_object = isinstance(json.loads(call["function"]["arguments"], parse_constant=_refuse), dict)
    except ValueError:
        is_object = False
    return [] if is_object else [f"arguments {call['function']['arguments']!r} are no JSON object"]


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _ids(history: Sequence[Fields]) -> list[str]:
    messages = Counter(message["id"] for message in history)
    calls = Counter(call["id"] for message in history for call in message.get("toolCalls") or [])
    return [f"{each!r} is used {count} times" for ids in (messages, calls) for each, count in ids.items() if count > 1]


def _blank(history: Sequence[Fields]) -> list[str]:
    found = []
    for message in history:
        content, role = message.get("content"), message["role"]
        if isinstance(content, list):
            texts = [part.get("text", "") for part in content if part.get("type") == "text"]
            is_blank = not content or not all(text.strip() for text in texts)
        elif content is None:
            is_blank = not (role == "assistant" and message.get("toolCalls"))
        else:
            is_blank = not content.strip()
        if is_blank and role != "reasoning":
            found.append(f"the {role} message {message['id']!r} is blank")
    return found


def _reasonings(history: Sequence[Fields], unsigned: bool) -> list[str]:
    """A reasoning can be verified, and leads to the assistant message right behind it."""
    found = []
    for at, message in enumerate(history):
        if message["role"] != "reasoning":
            continue
        if not message.get("encryptedValue") and not (unsigned and message["content"].strip()):
            found.append(f"the reasoning {message['id']!r} has no signature")
        after = next((each["role"] for each in history[at:] if each["role"] != "reasoning"), None)
        if after != "assistant":
            found.append(f"the reasoning {message['id']!r} leads to {after}")
    return found


def _turns(history: Sequence[Fields]) -> list[str]:
    roles = [message["role"] for message in history if message["role"] != "reasoning"]
    return [f"two {role} messages in a row" for role, after in pairwise(roles) if role == after != "tool"]

"""What the agent of the run after a field case is to see, made from what the case says of the history alone."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

QUESTION = {"id": "next", "role": "user", "content": "And then?"}
STAND_INS = {
    "complete": "Completed {name}",
    "active": "{name} was interrupted before it gave a result",
    "interrupted": "{name} was interrupted before it gave a result",
    "errored": "{name} failed before it gave a result",
}
# Of what was said twice, the model sees the last. The conversation of 091 began anew; the answer of 092 was replaced.
REPLACED = {"091-edit-and-resend": ("hi", "Hello"), "092-regenerate-same-user-message": ("Hello",)}

Line = tuple[Any, ...]


def expected(name: str, case: dict[str, Any]) -> list[Line]:
    """The history of the case and the question after it, in the shape of `outline`."""
    rows = [
        row
        for row in case["expect"]["messages"]
        if row["role"] != "activity" and row["content"] not in REPLACED.get(name, ())
    ]
    left = Counter(call["id"] for row in rows for call in row["tool_calls"])
    ids: Counter[str] = Counter()
    lines: list[Line] = []
    for row in rows:
        calls = []
        for call in row["tool_calls"]:
            ids[call["id"]] += 1
            # Of calls with one id, the last keeps it.
            number = "" if ids[call["id"]] == left[call["id"]] else f"-{ids[call['id']]}"
            calls.append((call["id"] + number, call))
        if row["content"] or calls:
            lines += [
                ("reasoning", step["encrypted_value"]) for step in row["reasonings"] if step.get("encrypted_value")
            ]
            lines.append((row["role"], row["content"] or None, *(agui_id for agui_id, _ in calls)))
        for agui_id, call in calls:
            lines.append(("tool", call["content"] or STAND_INS[call["status"]].format(name=call["name"]), agui_id))
    return [*lines, ("user", QUESTION["content"])]


def outline(messages: Sequence[dict[str, Any]]) -> list[Line]:
    """An agent's input, each message as its role, its content, and the ids of its calls or of the one it answers."""
    lines: list[Line] = []
    for message in messages:
        if message["role"] == "reasoning":
            lines.append(("reasoning", message["encryptedValue"]))
        elif message["role"] == "tool":
            lines.append(("tool", message["content"], message["toolCallId"]))
        else:
            calls = [call["id"] for call in message.get("toolCalls") or []]
            lines.append((message["role"], message.get("content"), *calls))
    return lines

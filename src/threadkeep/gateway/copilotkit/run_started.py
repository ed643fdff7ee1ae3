"""The first event of a run as CopilotKit's clients expect it: with the input of the run, less what was said before.

Pure; whatever else a stream says passes as it came.
"""

import json
from collections.abc import Sequence
from typing import Any

from threadkeep.chat_history.ag_ui.wire import read_object
from threadkeep.chat_history.constants import Role
from threadkeep.gateway.inputs import RunBody

_NEEDED = {"state": "{}", "tools": "[]", "context": "[]", "forwardedProps": "{}"}
"""What their client takes no input without."""


def with_input(event: bytes, body: RunBody) -> bytes:
    """A RUN_STARTED with the `input` that the run was asked for with; one that has one, and other events, as they are.

    Its messages are those that are new: what stands behind the last one of the agent. A client that has seen the others
    would be sent them again with each run.
    """
    # Only the head is looked at before the whole is read: nearly no event of a stream is this one.
    if b"RUN_STARTED" not in event[:200]:
        return event
    fields = read_object(event)
    if fields.get("type") != "RUN_STARTED" or "input" in fields:
        return event
    messages = json.dumps(new_messages(body.fields["messages"]), separators=(",", ":"))
    given = {name: text for name, text in body.members.items() if text != "null"}
    members = {**_NEEDED, **given, "messages": messages}
    text = ",".join(f"{json.dumps(name)}:{member}" for name, member in members.items())
    return event.rstrip()[:-1] + b',"input":{' + text.encode() + b"}}"


def new_messages(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages behind the last one of the agent's."""
    agents = (Role.ASSISTANT.value, Role.REASONING.value)
    spoken = [at for at, message in enumerate(messages) if message.get("role") in agents]
    return list(messages[spoken[-1] + 1 :]) if spoken else list(messages)

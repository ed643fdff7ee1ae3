"""An agent for servers in processes of their own. What the user says tells it how much to say, and how fast."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from threadkeep.chat_history import AGUIAgent, WireEvent
from threadkeep.chat_history.ag_ui.wire import message_fields


class Talking(AGUIAgent):
    """`20 0.1` is twenty words, one each tenth of a second; `3 hang` is three words, and then nothing for ever.

    Each word names its run and its place, so that whoever reads them can tell whether one is missing.
    """

    def __init__(self) -> None:
        super().__init__("talking")

    async def run(self, input: Any) -> AsyncGenerator[Any, None]:
        """Talk."""
        said = [message_fields(message) for message in input.messages]
        count, pace = next(each["content"] for each in reversed(said) if each["role"] == "user").split()
        run = {"threadId": input.thread_id, "runId": input.run_id}
        message, call = f"{input.run_id}-m", f"{input.run_id}-c"
        yield WireEvent.of({"type": "RUN_STARTED", **run})
        yield WireEvent.of({"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant"})
        for place in range(int(count)):
            delta = f"{input.run_id}.{place} "
            yield WireEvent.of({"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": delta})
            if pace != "hang":
                await asyncio.sleep(float(pace))
        if pace == "hang":
            await asyncio.Event().wait()
        yield WireEvent.of({"type": "TEXT_MESSAGE_END", "messageId": message})
        start = {"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "count", "parentMessageId": message}
        yield WireEvent.of(start)
        yield WireEvent.of({"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": "{}"})
        yield WireEvent.of({"type": "TOOL_CALL_END", "toolCallId": call})
        result = {"type": "TOOL_CALL_RESULT", "toolCallId": call, "messageId": f"{call}-r", "content": count}
        yield WireEvent.of(result)
        yield WireEvent.of({"type": "RUN_FINISHED", **run})


AGENT = "tests.e2e.talking_agent:Talking"

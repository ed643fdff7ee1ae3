"""An agent for servers under test: it says three words and waits until it is stopped."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from threadkeep.chat_history import AGUIAgent


class Talker(AGUIAgent):
    async def run(self, input: Any) -> AsyncGenerator[Any, None]:
        yield {"type": "RUN_STARTED", "threadId": input.thread_id, "runId": input.run_id}
        yield {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}
        for word in ("one ", "two ", "three "):
            yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": word}
        await asyncio.Event().wait()


agent = Talker("talker")

"""An agent whose process is killed while a tool runs, so that the call is stored and its result is not.

python killed.py DATABASE SPACE_KEY USER_UUID STREAM AT_END
"""

import asyncio
import os
import signal
import sys
from uuid import UUID

from agent_framework import tool

from tests.integrations.agent_framework.scripted import ScriptedClient, call, run
from threadkeep import embedded
from threadkeep.integrations.agent_framework import PersistentAgent, ThreadkeepHistoryProvider
from threadkeep.persistence import DRMemorySpace


@tool(name="f", approval_mode="never_require")
def f() -> str:
    """Never come back."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


async def main(database: str, key: str, user_id: str, stream: str, at_end: str) -> None:
    async with embedded.client(database, work=False) as client:
        space = await DRMemorySpace.post(client, deduplication_key=key)
        history = ThreadkeepHistoryProvider(space, UUID(user_id))
        agent = PersistentAgent(
            ScriptedClient([call("c1")], ["done"]),
            tools=[f],
            context_providers=[history],
            persist_chat_history_at_end_of_run=at_end == "True",
        )
        await run(agent, "hi", history.create_session("t"), stream=stream == "True")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""The demo agent: a script, or a real model where a key is set.

`threadkeep.demo:agent` is what `threadkeep serve --agent` is given.
"""

import os

from threadkeep.chat_history import AGUIAgent


def agent() -> AGUIAgent:
    """The scripted agent, or one on a real model where `OPENAI_API_KEY` is set.

    `OPENAI_BASE_URL` and `OPENAI_MODEL` choose the model; `THREADKEEP_DEMO_PAUSE` is the script's pause in seconds.
    """
    if os.environ.get("OPENAI_API_KEY"):
        from threadkeep.demo.openai import OpenAIAgent

        return OpenAIAgent()
    from threadkeep.demo.script import DemoAgent

    return DemoAgent()

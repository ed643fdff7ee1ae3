"""Chat history: where a reasoning goes that comes between two texts of a run."""

from interop.names import Root
from interop.scenarios import chat_agents as a


async def a_reasoning_between_two_texts_belongs_to_one_of_them(root: Root) -> None:
    script = [
        a.started(),
        *a.text("m2", "Let me see."),
        *a.reasoning("r1", "The user asks."),
        *a.text("m3", "It is sunny."),
        a.finished(),
    ]
    async with a.wired(root) as app:
        assert await a.read((await app.play(script, a.user("Weather?"))).handle) == script
        history = await app.history()
        assert [message.content for message in history] == ["Weather?", "Let me see.", "It is sunny."]
        steps = [step for message in history for step in message.reasonings]
        assert [(step.agui_id, step.content, str(step.status)) for step in steps] == [
            ("r1", "The user asks.", "complete")
        ]


SCENARIOS = (a_reasoning_between_two_texts_belongs_to_one_of_them,)

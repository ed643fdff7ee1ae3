"""A pydantic-ai agent on a scripted model, behind its own AG-UI app: an upstream that Threadkeep knows nothing of."""

from collections.abc import AsyncIterator

from pydantic_ai import Agent, ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Delta = str | dict[int, DeltaToolCall] | dict[int, DeltaThinkingPart]


async def speak(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Delta]:
    """Think and call the tool first; then answer with what it said, and count the questions of the conversation."""
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    last = parts[-1]
    if isinstance(last, ToolReturnPart):
        asked = sum(isinstance(part, UserPromptPart) for part in parts)
        for piece in (f"It is {last.content}", " degrees", f" (question {asked})."):
            yield piece
        return
    yield {0: DeltaThinkingPart(content="The tool ")}
    yield {0: DeltaThinkingPart(content="knows.")}
    yield "Let me "
    yield "look."
    yield {2: DeltaToolCall(name="temperature", json_args='{"city":', tool_call_id=f"call-{len(messages)}")}
    yield {2: DeltaToolCall(json_args=' "Oslo"}')}


agent = Agent(FunctionModel(stream_function=speak))


@agent.tool_plain
def temperature(city: str) -> int:
    """The temperature in a city, in degrees Celsius."""
    return len(city)


async def run(request: Request) -> Response:
    return await AGUIAdapter.dispatch_request(request, agent=agent)


app = Starlette(routes=[Route("/agent", run, methods=["POST"])])

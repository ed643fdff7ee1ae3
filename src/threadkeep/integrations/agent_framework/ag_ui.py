"""An agent of the framework as an AG-UI agent, e.g. for the gateway, which keeps its history then."""

from collections.abc import AsyncGenerator
from typing import Any

from ag_ui.core import BaseEvent, RunAgentInput, RunFinishedEvent, RunStartedEvent
from agent_framework import Content, Message, SupportsAgentRun

from threadkeep.chat_history import AGUIAgent, WireInput
from threadkeep.chat_history.ag_ui.wire import message_fields
from threadkeep.integrations.agent_framework.ag_ui_events import EventStream
from threadkeep.integrations.agent_framework.ag_ui_messages import declarations, framework_messages, stored_calls
from threadkeep.integrations.agent_framework.approvals import restore_pending
from threadkeep.integrations.agent_framework.repair import repaired
from threadkeep.integrations.agent_framework.sessions import RecordedSession

_ALLOWED = ("approved", "accepted")


class FrameworkAGUIAgent(AGUIAgent):
    """An agent of the framework, spoken to in AG-UI.

    ```python
    agent = FrameworkAGUIAgent(Agent(client, tools=[get_weather]))  # threadkeep serve --agent my_app:agent
    ```

    Text, tool calls, results and reasoning come as events; tools of the frontend are offered to the model; a tool that
    needs approval ends the run with an interrupt, and the frontend's `resume` goes on. Whoever runs it keeps the
    history, so the agent's own `ThreadkeepHistoryProvider` neither loads nor stores: nothing is written twice.

    Args:
        agent: the agent, a `PersistentAgent` or any other.
        name: what it is called; the agent's own name if None.
    """

    def __init__(self, agent: SupportsAgentRun, name: str | None = None) -> None:
        super().__init__(name or agent.name or "assistant")
        self.agent = agent

    async def run(self, input: RunAgentInput | WireInput) -> AsyncGenerator[BaseEvent, None]:
        """Run the agent on the conversation of the input.

        Raises:
            Exception: what the agent raises.
        """
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        answers = _approvals(input)
        history = framework_messages(input.messages)
        session = RecordedSession(session_id=input.thread_id)
        restore_pending(session, [request for request, _ in answers], [answer for _, answer in answers])
        open_calls = {request.contents[0].call_id or "" for request, _ in answers}
        messages = [*repaired(history, open_calls=open_calls), *(answer for _, answer in answers)]
        # The whole conversation is sent, so a service has nothing to keep.
        client = getattr(self.agent, "client", None)
        options: Any = {"store": False} if getattr(client, "STORES_BY_DEFAULT", False) else None
        tools: Any = {"tools": declarations(input.tools)} if input.tools else {}
        if options is not None:
            tools["options"] = options
        events = EventStream()
        stream: Any = self.agent.run(messages, stream=True, session=session, **tools)
        try:
            async for update in stream:
                for event in events.events(update):
                    yield event
        finally:
            await stream.close()
        for event in events.end():
            yield event
        yield _finished(input, events)


def _approvals(run_input: Any) -> list[tuple[Message, Message]]:
    """What a person said about calls that wait: for each the request, as it was made, and the answer to it."""
    answers: list[tuple[Message, Message]] = []
    waiting = stored_calls(run_input.messages)
    for entry in run_input.resume or ():
        fields = message_fields(entry)
        call = waiting.get(str(fields.get("interruptId")))
        if call is None or call.call_id is None:
            continue
        call.id = call.call_id
        request = Content.from_function_approval_request(call.call_id, call)
        response = request.to_function_approval_response(_is_allowed(fields))
        answers.append((Message("assistant", [call, request]), Message("user", [response])))
    return answers


def _is_allowed(fields: Any) -> bool:
    payload = fields.get("payload")
    if fields.get("status") != "resolved":
        return False
    if isinstance(payload, dict):
        return any(payload.get(name) is True for name in _ALLOWED)
    return payload is True


def _finished(run_input: Any, events: EventStream) -> BaseEvent:
    fields: dict[str, Any] = {"threadId": run_input.thread_id, "runId": run_input.run_id}
    if events.approvals:
        interrupts = [
            {
                "id": call_id,
                "reason": "tool_call",
                "message": f"{request.function_call.name if request.function_call else ''} needs approval",
                "toolCallId": call_id,
                "responseSchema": {
                    "type": "object",
                    "properties": {"approved": {"type": "boolean"}},
                    "required": ["approved"],
                },
            }
            for call_id, request in events.approvals.items()
        ]
        fields["outcome"] = {"type": "interrupt", "interrupts": interrupts}
    return RunFinishedEvent.model_validate(fields)

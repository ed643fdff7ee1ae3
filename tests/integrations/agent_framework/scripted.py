"""A scripted model behind the framework's own layers. It refuses to be sent what a chat API would refuse."""

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    AgentResponse,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)

Reply = Sequence[Content | str] | Exception


def call(call_id: str, name: str = "f", arguments: str = "{}") -> Content:
    """A tool call that the model asks for."""
    return Content.from_function_call(call_id, name, arguments=arguments)


class ScriptedClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Answers the first service call with the first reply, and so on.

    A reply is a list of contents, streamed one by one, or an error to raise. `sent` has what each service call was
    sent, in the shape of `seen`; a list that a chat API would refuse fails the call.
    """

    def __init__(self, *replies: Reply, conversation_ids: Sequence[str | None] = (), **options: Any) -> None:
        super().__init__(**options)
        self.sent: list[list[dict[str, Any]]] = []
        self.options: list[dict[str, Any]] = []
        self._replies = list(replies)
        self._conversation_ids = list(conversation_ids)

    def script(self, *replies: Reply) -> None:
        """More replies."""
        self._replies += replies

    def _inner_get_response(  # type: ignore[override]
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> Awaitable[ChatResponse[Any]] | ResponseStream[ChatResponseUpdate, ChatResponse[Any]]:
        if not options.get("conversation_id"):
            check_accepted(messages)
        self.sent.append(seen(messages))
        self.options.append(dict(options))
        reply = self._replies.pop(0)
        conversation_id = self._conversation_ids.pop(0) if self._conversation_ids else None
        if isinstance(reply, Exception) and not stream:
            raise reply
        contents = [] if isinstance(reply, Exception) else [_content(each) for each in reply]
        if not stream:
            return _whole(contents, conversation_id)

        async def updates() -> AsyncIterator[ChatResponseUpdate]:
            if isinstance(reply, Exception):
                raise reply
            for content in contents:
                yield ChatResponseUpdate(role="assistant", contents=[content], conversation_id=conversation_id)

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates)


async def _whole(contents: list[Content], conversation_id: str | None) -> ChatResponse[Any]:
    joined = ChatResponse.from_updates([ChatResponseUpdate(role="assistant", contents=contents)])
    return ChatResponse(messages=joined.messages, conversation_id=conversation_id)


def _content(each: Content | str) -> Content:
    return Content.from_text(each) if isinstance(each, str) else each


async def run(
    agent: Agent[Any], messages: Any, session: AgentSession | None = None, *, stream: bool, **options: Any
) -> AgentResponse[Any]:
    """Run an agent to its end, streaming or not."""
    if not stream:
        return await agent.run(messages, session=session, **options)
    following = agent.run(messages, session=session, stream=True, **options)
    async for _ in following:
        pass
    return await following.get_final_response()


def seen(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in the shape that the field cases speak of."""
    shown: list[dict[str, Any]] = []
    for message in messages:
        results = [content for content in message.contents if content.type == "function_result"]
        shown += [{"role": "tool", "tool_call_id": each.call_id, "content": each.result} for each in results]
        fields: dict[str, Any] = {"role": message.role}
        if text := "".join(content.text or "" for content in message.contents if content.type == "text"):
            fields["content"] = text
        calls = [
            {"id": each.call_id, "name": each.name, "arguments": each.arguments}
            for each in message.contents
            if each.type == "function_call"
        ]
        if calls:
            fields["tool_calls"] = calls
        others = [each.to_dict() for each in message.contents if each.type not in _SHOWN]
        if others:
            fields["others"] = others
        if len(fields) > 1:
            shown.append(fields)
    return shown


_SHOWN = ("text", "function_call", "function_result")


def check_accepted(messages: Sequence[Message]) -> None:
    """Refuse what chat APIs refuse.

    A call must be answered by the messages right after it, once; a result must follow its call; a message must say
    something; local approvals are nothing that a model is sent; reasoning must lead to something.
    """
    waiting: list[str] = []
    for place, message in enumerate(messages):
        types = [content.type for content in message.contents]
        assert types, f"message {place} is empty"
        assert not any("approval" in kind for kind in types), f"message {place} is about approvals: {types}"
        if message.role == "tool":
            for content in message.contents:
                assert content.type == "function_result", f"message {place} of a tool holds {content.type}"
                assert content.call_id in waiting, f"the result of {content.call_id!r} does not follow its call"
                waiting.remove(content.call_id)
            continue
        assert not waiting, f"calls without a result before message {place}: {waiting}"
        assert "function_result" not in types, f"message {place} of {message.role!r} holds a result"
        if message.role == "assistant":
            waiting = [content.call_id or "" for content in message.contents if content.type == "function_call"]
            assert len(set(waiting)) == len(waiting), f"message {place} has a call twice"
            loose = set(types) == {"text_reasoning"}
            follows = place + 1 < len(messages) and messages[place + 1].role == "assistant"
            assert not loose or follows, f"message {place} is reasoning that leads to nothing"
    assert not waiting, f"calls without a result at the end: {waiting}"

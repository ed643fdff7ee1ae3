"""AG-UI messages as the demo's model sees them."""

from ag_ui.core import AssistantMessage, UserMessage

from threadkeep.demo.conversation import chat_messages, user_texts

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}


def test_a_conversation_with_a_tool_call_maps_one_to_one() -> None:
    messages = [
        {"id": "s", "role": "developer", "content": "Be brief."},
        {"id": "u", "role": "user", "content": "Oslo?"},
        {"id": "a", "role": "assistant", "content": "", "toolCalls": [CALL]},
        {"id": "t", "role": "tool", "toolCallId": "c1", "content": "7 degrees"},
        {"id": "x", "role": "reasoning", "content": "hm"},
        {"id": "b", "role": "assistant", "content": "It is 7 degrees."},
        {"id": "p", "role": "activity", "activityType": "P", "content": {}},
    ]
    assert chat_messages(messages) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Oslo?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "7 degrees"},
        {"role": "assistant", "content": "It is 7 degrees."},
    ]


def test_objects_are_read_like_dicts() -> None:
    messages = [
        UserMessage(id="u", role="user", content="Oslo?"),
        AssistantMessage.model_validate({"id": "a", "role": "assistant", "toolCalls": [CALL]}),
    ]
    assert chat_messages(messages) == [
        {"role": "user", "content": "Oslo?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
    ]


def test_parts_keep_text_and_images_and_name_what_a_model_cannot_take() -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "source": {"type": "url", "value": "https://example.org/a.png"}},
        {"type": "image", "source": {"type": "data", "value": "QUJD", "mimeType": "image/png"}},
        {"type": "binary", "mimeType": "image/gif", "data": "R0lG"},
        {"type": "audio", "source": {"type": "data", "value": "QUJD", "mimeType": "audio/wav"}},
    ]
    (message,) = chat_messages([{"id": "u", "role": "user", "content": parts}])
    assert message == {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
            {"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lG"}},
            {"type": "text", "text": "[audio: audio/wav]"},
        ],
    }
    assert user_texts([{"id": "u", "role": "user", "content": parts}]) == ["What is this?"]


def test_a_turn_that_says_nothing_is_left_out() -> None:
    assert chat_messages([{"id": "a", "role": "assistant", "content": ""}, {"id": "b", "role": "assistant"}]) == []


def test_a_call_without_arguments_has_empty_ones() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": ""}}
    (message,) = chat_messages([{"id": "a", "role": "assistant", "toolCalls": [call]}])
    assert message["tool_calls"][0]["function"] == {"name": "now", "arguments": "{}"}

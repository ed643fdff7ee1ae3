"""AG-UI messages as CopilotKit's inspector shows them."""

from threadkeep.gateway.copilotkit.answers import inspected


def test_calls_are_shown_flat() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}, "metadata": {"x": 1}}
    assert inspected({"id": "m1", "role": "assistant", "toolCalls": [call], "name": "bot"}) == {
        "id": "m1",
        "role": "assistant",
        "toolCalls": [{"id": "c1", "name": "f", "args": '{"a":1}'}],
    }


def test_a_result_names_its_call() -> None:
    result = {"id": "r1", "role": "tool", "toolCallId": "c1", "content": "42"}
    assert inspected({**result, "error": "late"}) == result


def test_content_is_shown_as_it_is() -> None:
    parts = [{"type": "text", "text": "What is this?"}]
    assert inspected({"id": "u1", "role": "user", "content": parts}) == {"id": "u1", "role": "user", "content": parts}
    plan = {"id": "p1", "role": "activity", "activityType": "plan", "content": {"steps": []}}
    assert inspected(plan) == plan

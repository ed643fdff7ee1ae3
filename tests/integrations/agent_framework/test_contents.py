"""Every content type of the framework comes back from the store as it was."""

from datetime import UTC, datetime
from typing import Any

import pytest
from agent_framework import Content, Message

from tests.integrations.agent_framework.scripted import call
from tests.integrations.agent_framework.stored import Place
from threadkeep.chat_history import ChatSessionRegistry, MessageRepository, MessageToolCallUpdate
from threadkeep.integrations.agent_framework.contents import new_row
from threadkeep.integrations.agent_framework.parts import content_of_part, part_of_content

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
IMAGE = Content.from_data(b"abc", media_type="image/png")

ASSISTANT: dict[str, Content] = {
    "text": Content.from_text("hi"),
    "annotated text": Content.from_text(
        "hi", annotations=[{"type": "citation", "title": "T", "url": "https://example.com"}]
    ),
    "reasoning": Content.from_text_reasoning(id="r1", text="think"),
    "protected reasoning": Content.from_text_reasoning(id="r1", protected_data="E"),
    "data": IMAGE,
    "uri": Content.from_uri("https://example.com/a.pdf", media_type="application/pdf"),
    "error": Content.from_error(message="bad", error_code="E1", error_details="more"),
    "call": call("c9"),
    "call with a mapping": Content.from_function_call("c9", "f", arguments={"a": [1, None]}),
    "call with extras": Content.from_function_call("c9", "f", arguments="{}", additional_properties={"k": {"n": 1}}),
    "hosted file": Content.from_hosted_file("file_1", media_type="text/csv", name="a.csv"),
    "vector store": Content.from_hosted_vector_store("vs_1"),
    "code interpreter call": Content.from_code_interpreter_tool_call(
        call_id="ci", inputs=[Content.from_text("print(1)")]
    ),
    "code interpreter result": Content.from_code_interpreter_tool_result(
        call_id="ci", outputs=[Content.from_text("1")]
    ),
    "image call": Content.from_image_generation_tool_call(image_id="i1"),
    "image result": Content.from_image_generation_tool_result(image_id="i1", outputs=[IMAGE]),
    "MCP call": Content.from_mcp_server_tool_call("m1", "look", server_name="s", arguments={"q": "x"}),
    "MCP result": Content.from_mcp_server_tool_result("m1", output=[Content.from_text("found")]),
    "search call": Content.from_search_tool_call(call_id="s1", tool_name="web", arguments={"q": "x"}),
    "search result": Content.from_search_tool_result(call_id="s1", tool_name="web", result="found"),
    "shell call": Content.from_shell_tool_call(call_id="sh", commands=["ls"], timeout_ms=5),
    "shell result": Content.from_shell_tool_result(
        call_id="sh", outputs=[Content.from_shell_command_output(stdout="a", exit_code=0)]
    ),
    "computer call": Content("computer_tool_call", call_id="co", actions=[{"type": "click", "x": 1, "y": 2}]),
    "computer result": Content("computer_tool_result", call_id="co", screenshot=IMAGE),
    "approval request": Content.from_function_approval_request("a1", call("c9", "guarded")),
    "hosted approval request": Content.from_function_approval_request(
        "a1", Content.from_function_call("c9", "f", arguments="{}", hosted=True, server_name="s")
    ),
    "consent request": Content.from_oauth_consent_request("https://example.com/consent"),
}

USER: dict[str, Content] = {
    "image": IMAGE,
    "audio": Content.from_uri("https://example.com/a.mp3", media_type="audio/mpeg"),
    "document": Content.from_data(b"%PDF", media_type="application/pdf"),
    "file": Content.from_hosted_file("file_1"),
    "approval response": Content.from_function_approval_response(True, "a1", call("c9", "guarded")),
}

RESULTS: dict[str, Content] = {
    "text": Content.from_function_result("c1", result="r"),
    "empty": Content.from_function_result("c1", result=""),
    "value": Content.from_function_result("c1", result={"a": [1, 2]}),
    "items": Content.from_function_result("c1", result=[Content.from_text("see"), IMAGE]),
    "failure": Content.from_function_result("c1", result="Error: no", exception="secret"),
    "extras": Content.from_function_result("c1", result="r", additional_properties={"k": 1}),
}


async def test_what_an_agent_says_comes_back_as_it_was(place: Place) -> None:
    said = {
        name: [Message("assistant", [content], author_name="helper", message_id="m1")]
        for name, content in ASSISTANT.items()
    }
    assert await _kept(place, said) == {name: [_form(each) for each in messages] for name, messages in said.items()}


async def test_what_a_user_sends_comes_back_as_it_was(place: Place) -> None:
    sent = {
        name: [Message("user", [content] if "approval" in name else ["look", content])]
        for name, content in USER.items()
    }
    assert await _kept(place, sent) == {name: [_form(each) for each in messages] for name, messages in sent.items()}


async def test_results_come_back_as_they_were(place: Place) -> None:
    said = {name: [Message("assistant", [call("c1")]), Message("tool", [content])] for name, content in RESULTS.items()}
    assert await _kept(place, said) == {name: [_form(each) for each in messages] for name, messages in said.items()}


async def _kept(place: Place, talks: dict[str, list[Message]]) -> dict[str, list[dict[str, Any]]]:
    """What another process reads of each conversation."""
    for name, messages in talks.items():
        await place.provider().save_messages(name, messages)
    reader = place.provider()
    return {name: [_form(message) for message in await reader.get_messages(name)] for name in talks}


async def test_several_contents_keep_their_order(place: Place) -> None:
    contents = [ASSISTANT[name] for name in ("protected reasoning", "text", "call", "MCP call", "MCP result", "text")]
    said = Message("assistant", contents, additional_properties={"mine": {"deep": [1]}})
    await place.provider().save_messages("t", [said])
    assert await _read(place) == [_form(said)]
    row = (await place.rows())[0]
    assert row.content == "hihi"
    assert [(each.agui_id, each.name) for each in row.tool_calls] == [("c9", "f")]
    assert [(each.agui_id, each.encrypted_value) for each in row.reasonings] == [("r1", "E")]


async def test_instructions_in_messages_keep_their_roles(place: Place) -> None:
    said = [Message("system", ["be brief"]), Message("developer", ["be kind"])]
    await place.provider().save_messages("t", said)
    assert await _read(place) == [_form(message) for message in said]


async def test_an_attachment_is_a_part_that_frontends_can_show(place: Place) -> None:
    await place.provider().save_messages("t", [Message("user", ["look", IMAGE])])
    row = (await place.rows())[0]
    assert row.content == "look"
    assert row.parts == [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "data", "value": "YWJj", "mimeType": "image/png"}},
    ]
    assert getattr(row, "agent_framework", None) is None


async def test_a_large_attachment_of_a_user_comes_back_whole(place: Place) -> None:
    sent = Message("user", ["look", Content.from_data(b"x" * 3_500_000, media_type="image/png")])
    await place.provider().save_messages("t", [sent])
    assert await _read(place) == [_form(sent)]


async def test_what_is_large_comes_back_whole_from_an_agent_and_its_tools(place: Place) -> None:
    image = Content.from_data(b"x" * 3_500_000, media_type="image/png")
    said = [
        Message("assistant", ["Here it is", image, call("c1")]),
        Message("tool", [Content.from_function_result("c1", result=[Content.from_text("see"), image])]),
    ]
    await place.provider().save_messages("t", said)
    assert await _read(place) == [_form(message) for message in said]


async def test_only_what_a_row_cannot_hold_is_kept_beside_it(place: Place) -> None:
    plain = Message("assistant", [Content.from_text_reasoning(id="r1", text="hm"), Content.from_text("hi"), call("c1")])
    await place.provider().save_messages("t", [plain, Message("tool", [RESULTS["text"]])])
    row = (await place.rows())[0]
    assert getattr(row, "agent_framework", None) is None
    assert [getattr(each, "agent_framework", None) for each in row.tool_calls] == [None]
    assert await _read(place) == [_form(plain), _form(Message("tool", [RESULTS["text"]]))]


async def test_a_failed_tool_is_a_failed_call_without_its_secret(place: Place) -> None:
    await place.provider().save_messages(
        "t", [Message("assistant", [call("c1")]), Message("tool", [RESULTS["failure"]])]
    )
    found = (await place.rows())[0].tool_calls[0]
    assert (found.content, found.status.value) == ("Error: no", "errored")
    assert "secret" not in found.model_dump_json()


async def test_a_result_that_was_changed_since_is_the_one_that_counts(place: Place) -> None:
    await place.provider().save_messages(
        "t", [Message("assistant", [call("c1")]), Message("tool", [RESULTS["extras"]])]
    )
    uuid = (await place.rows())[0].tool_calls[0].uuid
    registry = ChatSessionRegistry(place.space)
    await MessageRepository(place.space, registry).update_message_tool_call(
        uuid, MessageToolCallUpdate(content="redacted")
    )
    assert (await place.provider().get_messages("t"))[1].contents[0].result == "redacted"


def test_nothing_makes_no_row() -> None:
    assert new_row(Message("assistant", []), NOON) is None
    assert new_row(Message("tool", [RESULTS["text"]]), NOON) is None


@pytest.mark.parametrize(
    ("part", "uri", "media_type"),
    [
        ({"type": "image", "source": {"type": "url", "value": "https://e.x/a.png"}}, "https://e.x/a.png", None),
        ({"type": "binary", "mimeType": "image/png", "data": "YWJj"}, "data:image/png;base64,YWJj", "image/png"),
        ({"type": "binary", "mimeType": "text/csv", "url": "https://e.x/a.csv"}, "https://e.x/a.csv", "text/csv"),
    ],
)
def test_parts_of_frontends_become_contents(part: dict[str, Any], uri: str, media_type: str | None) -> None:
    content = content_of_part(part)
    assert content is not None
    assert content.uri == uri
    assert media_type in (None, content.media_type)


def test_parts_that_say_nothing_are_left_out() -> None:
    assert content_of_part({"type": "binary", "mimeType": "image/png", "id": "upload-1"}) is None
    assert content_of_part("text") is None
    assert part_of_content(Content.from_hosted_file("f")) is None


async def _read(place: Place) -> list[dict[str, Any]]:
    return [_form(message) for message in await place.provider().get_messages("t")]


def _form(message: Message) -> dict[str, Any]:
    form = message.to_dict()
    properties = form.pop("additional_properties", {})
    return {**form, "properties": {name: value for name, value in properties.items() if name != "threadkeep"}}

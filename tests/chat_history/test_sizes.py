"""Messages that are larger than the service takes."""

import json

from threadkeep.chat_history import Message, Reasoning, ToolCall
from threadkeep.chat_history.sizes import MAX_CONTENT_CHARACTERS, fit


def test_a_message_that_fits_stays_as_it_is() -> None:
    call = ToolCall(content="é" * 600_000)
    assert fit(Message(content="x" * MAX_CONTENT_CHARACTERS, tool_calls=[call])) == {}


def test_content_is_cut_at_a_million_characters_and_says_so() -> None:
    changes = fit(Message(content="é" * 1_048_576))
    assert len(changes["content"]) == 1_000_000
    assert changes["error"] == "content cut: the first 1,000,000 of 1,048,576 characters are stored"


def test_an_error_that_is_there_is_kept() -> None:
    assert fit(Message(content="x" * 1_000_001, error="503"))["error"] == "503"


def test_the_longest_part_of_a_body_that_is_too_large_is_cut_and_says_so() -> None:
    calls = [ToolCall(name="big", content="\0" * 900_000), ToolCall(name="small", content="r", arguments="{}")]
    message = Message(content="text", tool_calls=calls, reasonings=[Reasoning(content="hm")])
    after = message.model_copy(update=fit(message))
    assert len(json.dumps(after.model_dump(mode="json"), ensure_ascii=False).encode()) <= 4 * 1024 * 1024
    big, small = after.tool_calls
    assert big.error.startswith("content cut: the first ")
    assert len(big.content) > 600_000 // 6
    assert (small.content, small.error, after.content, after.error) == ("r", None, "text", None)
    assert after.reasonings == message.reasonings


def test_a_large_part_is_replaced_by_a_text_that_says_so() -> None:
    image = {"type": "image", "source": {"type": "data", "value": "A" * 5_000_000, "mimeType": "image/png"}}
    small = {"type": "text", "text": "see"}
    message = Message(content="see", role="user", parts=[small, image])
    assert fit(message) == {
        "parts": [small, {"type": "text", "text": "[image of 5,000,083 bytes, not stored]"}],
        "error": "parts cut: the largest are not stored",
    }
    assert fit(message.model_copy(update={"parts": [small]})) == {}


def test_half_a_surrogate_pair_makes_all_that_is_not_ascii_long() -> None:
    assert fit(Message(content="é" * 900_000)) == {}
    assert len(fit(Message(content="é" * 900_000 + "\ud83d"))["content"]) == 516_096
    assert fit(Message(content="x" * 900_000 + "\ud83d")) == {}


def test_a_text_whose_characters_are_long_in_json_is_cut_sooner() -> None:
    changes = fit(Message(content="\x00" * 900_000))
    assert changes["error"] == "content cut: the first 516,096 of 900,000 characters are stored"

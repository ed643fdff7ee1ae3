"""Keys and ids: what other stores of the same layer derive, written out."""

import hashlib
from uuid import UUID

import pytest

from threadkeep.chat_history import (
    DEDUPLICATION_KEY_LENGTH,
    app_str,
    chat_deduplication_key,
    emitter_for_role,
    locator_key,
    normalize_participant_id,
    participant_id,
    session_deduplication_key,
    wire_non_empty_str,
)

USER = UUID("00000000-0000-0000-0000-000000000001")


def test_the_key_of_a_chat_is_the_hash_of_its_user_and_thread() -> None:
    expected = hashlib.sha256(b"chat\x0000000000-0000-0000-0000-000000000001\0thread-1").hexdigest()
    assert chat_deduplication_key(USER, "thread-1") == expected
    assert len(expected) == DEDUPLICATION_KEY_LENGTH


def test_keys_of_different_parts_differ() -> None:
    assert session_deduplication_key("n", "a", "b:c") != session_deduplication_key("n", "a:b", "c")
    assert session_deduplication_key("n", "\ud83d") == session_deduplication_key("n", "\ud83d")


def test_a_participant_is_24_hex_digits_of_the_hash_of_the_uuids_bytes() -> None:
    assert participant_id(USER) == hashlib.sha256(USER.bytes).hexdigest()[:24]


def test_a_usable_override_wins() -> None:
    assert participant_id(USER, override=" 65F000000000000000000ABC ") == "65f000000000000000000abc"
    assert participant_id(USER, override="nobody") == participant_id(USER)


@pytest.mark.parametrize("raw", [None, "", "65f0", "z" * 24, "65f000000000000000000001x"])
def test_what_is_no_participant_id_is_none(raw: str | None) -> None:
    assert normalize_participant_id(raw) is None


def test_an_empty_text_is_stored_as_a_zero_width_space() -> None:
    assert (wire_non_empty_str(""), wire_non_empty_str("x"), wire_non_empty_str(None)) == ("\u200b", "x", "\u200b")
    assert (app_str("\u200b"), app_str("x"), app_str(""), app_str(None)) == ("", "x", "", "")


def test_only_users_emit_as_users() -> None:
    emitters = [emitter_for_role(role, "ann") for role in ("user", "assistant", "tool")]
    assert emitters == [("user", "ann"), ("agent", None), ("agent", None)]


def test_a_locator_is_found_by_kind_and_uuid() -> None:
    assert locator_key("message", USER) == "message:00000000-0000-0000-0000-000000000001"

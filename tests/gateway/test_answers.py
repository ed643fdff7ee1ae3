"""What is shown of stored rows, odd ones included."""

import json
from typing import Any
from uuid import UUID

import pytest

from threadkeep.domain.event import Event
from threadkeep.domain.run import Run
from threadkeep.domain.session import Session
from threadkeep.gateway.answers import chat_uuid_of, message_answer, run_answer, thread_answer
from threadkeep.services.sessions import RecentSession

AT = 1_796_212_800_123_456
AT_TEXT = "2026-12-02T12:00:00.123456Z"


def event(body: str) -> Event:
    return Event(7, body, "message", "agent", None, AT)


def session(description: str | None, metadata: str | None) -> Session:
    return Session("s", "i", ("p",), description, metadata, "[]", 1, None, AT)


def test_a_stored_message_is_shown_in_the_contract_s_names() -> None:
    body = {
        "v": 1,
        "message_uuid": "m-uuid",
        "agui_id": "m1",
        "role": "assistant",
        "content": "\u200b",
        "step": "plan",
        "in_progress": True,
        "status": "active",
        "timestamp": "2026-12-02T12:00:01.5+00:00",
        "run_id": "r1",
        "tool_calls": [
            {
                "uuid": "c-uuid",
                "agui_id": "c1",
                "tool_call_id": "res",
                "name": "f",
                "arguments": "{}",
                "content": "\u200b",
                "status": "complete",
                "in_progress": False,
            }
        ],
        "reasonings": [{"uuid": "x-uuid", "content": "hm", "status": "errored", "error": "cut"}],
        "interrupts": [{"id": "i1"}],
        "future": 1,
    }
    assert message_answer(event(json.dumps(body))) == {
        "messageUuid": "m-uuid",
        "aguiId": "m1",
        "role": "assistant",
        "name": None,
        "content": "",
        "step": "plan",
        "status": "active",
        "inProgress": True,
        "error": None,
        "timestamp": "2026-12-02T12:00:01.500000Z",
        "sequenceId": 7,
        "runId": "r1",
        "toolCalls": [
            {
                "uuid": "c-uuid",
                "aguiId": "c1",
                "toolCallId": "res",
                "name": "f",
                "arguments": "{}",
                "content": "",
                "status": "complete",
                "inProgress": False,
                "error": None,
            }
        ],
        "reasonings": [
            {
                "uuid": "x-uuid",
                "aguiId": None,
                "name": None,
                "content": "hm",
                "status": "errored",
                "inProgress": False,
                "error": "cut",
            }
        ],
        "interrupts": [{"id": "i1"}],
    }


def test_what_most_messages_do_not_have_is_shown_where_it_is() -> None:
    parts, metadata = [{"type": "text", "text": "4C"}], {"k": [1]}
    inner = {"encrypted_value": "gA==", "subagent_run_id": "s1", "metadata": metadata}
    shown_inner = {"encryptedValue": "gA==", "subagentRunId": "s1", "metadata": metadata}
    body = {
        **inner,
        "parts": parts,
        "follows": "m-uuid",
        "activity_type": "PLAN",
        "outcome": {"type": "success"},
        "result": 0,
        "usage": [{"inputTokens": 3}],
        "tool_calls": [{**inner, "parts": parts}],
        "reasonings": [inner],
        "subagents": [{"subagent_run_id": "s2", "name": "scout", "result": False, "status": "errored", "error": "no"}],
    }
    shown = message_answer(event(json.dumps(body)))
    expected = {
        **shown_inner,
        "parts": parts,
        "follows": "m-uuid",
        "activityType": "PLAN",
        "outcome": {"type": "success"},
        "result": 0,
        "usage": [{"inputTokens": 3}],
        "subagents": [
            {
                "subagentRunId": "s2",
                "name": "scout",
                "description": None,
                "parentSubagentRunId": None,
                "parentToolCallId": None,
                "parentMessageId": None,
                "status": "errored",
                "inProgress": False,
                "error": "no",
                "result": False,
            }
        ],
    }
    assert {name: shown.get(name) for name in expected} == expected
    assert shown["toolCalls"][0].items() >= {**shown_inner, "parts": parts}.items()
    assert shown["reasonings"][0].items() >= shown_inner.items()


@pytest.mark.parametrize(
    "body",
    [
        "{}",
        '{"metadata": [], "usage": {}, "activity_type": 3, "subagents": [4, {}], "interrupts": "x"}',
        "[1]",
        '{"content": {"a": 1}, "role": 3, "tool_calls": "x", "reasonings": [4], "timestamp": "soon", "parts": {}}',
        '{"content": %s}' % ("9" * 5_000),
        "[" * 100_000,
    ],
    ids=["empty", "odd extras", "list", "wrong types", "huge number", "deep"],
)
def test_a_body_of_any_shape_is_shown(body: str) -> None:
    shown = message_answer(event(body))
    assert (shown["content"], shown["role"], shown["timestamp"]) == ("", "assistant", AT_TEXT)
    assert (shown["toolCalls"], shown["reasonings"]) == ([], [])


def test_a_long_value_that_is_stored_elsewhere_is_put_back_or_empty() -> None:
    uuid = UUID(int=7)
    source = {"type": "data", "value": {"$attachment": str(uuid)}}
    body = {
        "content": "One, ",
        "rests": {"content": {"$attachment": str(uuid)}},
        "tool_calls": [{"parts": [{"type": "image", "source": source}]}],
    }
    found = message_answer(event(json.dumps(body)), {uuid: "two"}.get)
    assert (found["content"], found["error"]) == ("One, two", None)
    assert found["toolCalls"][0]["parts"] == [{"type": "image", "source": {"type": "data", "value": "two"}}]
    missing = message_answer(event(json.dumps(body)))
    assert (missing["content"], missing["error"]) == ("One, ", "content cut: the first 5 characters are stored")
    assert missing["toolCalls"][0]["parts"] == [{"type": "image", "source": {"type": "data", "value": ""}}]


def test_a_thread_is_shown_from_its_session() -> None:
    metadata = json.dumps({"name": "Trip", "chat_uuid": "2942277a-e451-48f7-a739-3db3ab70984d"})
    found = RecentSession(session("//thread/a%2Fb%25/", metadata), AT + 1, None, "r1")
    assert thread_answer(found) == {
        "threadId": "a/b%",
        "name": "Trip",
        "createdAt": AT_TEXT,
        "updatedAt": "2026-12-02T12:00:00.123457Z",
        "lastMessage": None,
        "activeRunId": "r1",
    }


@pytest.mark.parametrize(
    ("description", "metadata", "thread_id"),
    [(None, None, ""), ("//thread/a/b/", '{"name": 4}', "//thread/a/b/"), ("x//thread/a/", "[]", "x//thread/a/")],
)
def test_a_session_that_is_no_thread_of_ours_is_shown_all_the_same(
    description: str | None, metadata: str | None, thread_id: str
) -> None:
    shown = thread_answer(RecentSession(session(description, metadata), AT, None, None))
    assert (shown["threadId"], shown["name"]) == (thread_id, "New Chat")


@pytest.mark.parametrize("metadata", [None, "{}", '{"chat_uuid": 3}', '{"chat_uuid": "x"}'])
def test_a_session_without_a_chat_uuid_has_none(metadata: str | None) -> None:
    assert chat_uuid_of(metadata) is None


def test_a_run_is_shown_with_what_its_agent_said() -> None:
    said: dict[str, Any] = {"outcome": '{"type":"success"}', "usage": '[{"inputTokens":3}]', "error": None}
    times: dict[str, Any] = {"started_at": AT, "finished_at": AT, "lease_until": 0}
    run = Run("s", "i", "r1", "r0", "u", "t", "o", "finished", **said, **times)
    assert run_answer(run) == {
        "runId": "r1",
        "parentRunId": "r0",
        "status": "finished",
        "outcome": {"type": "success"},
        "usage": [{"inputTokens": 3}],
        "error": None,
        "startedAt": AT_TEXT,
        "finishedAt": AT_TEXT,
    }

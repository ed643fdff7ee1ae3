"""Interrupts as runs say them, and what inputs say to them."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from threadkeep import clock
from threadkeep.domain.interrupt import Interrupt, InterruptDraft, drafts_of
from threadkeep.domain.resume import Answers, cancelled_entries, has_failed, lineage, read_answers, settle
from threadkeep.errors import InterruptAnswered, InterruptExpired, InterruptsOpen, Invalid

NOW = clock.parse_timestamp("2026-11-30T12:00:00Z")
HOUR = 3_600_000_000
RESUME = [{"interruptId": "i1", "status": "resolved"}]


def interrupt(
    name: str = "i1", run: str = "r1", *, call: str | None = None, status: str = "open", **fields: Any
) -> Interrupt:
    payload = json.dumps({"id": name, "reason": "tool_call", **({"toolCallId": call} if call else {})})
    values = {"expires_at": None, "created_at": NOW - HOUR, **fields}
    return Interrupt(run, name, 0, payload, status, **values)


def expired(name: str = "i1") -> Interrupt:
    return interrupt(name, expires_at=NOW - 1)


def outcome(answers: Answers, *found: Interrupt) -> list[tuple[str, str, bool]]:
    return [(each.interrupt.interrupt_id, each.status, each.is_told) for each in settle(answers, found, NOW)]


def answers(*said: tuple[str, str], **options: Any) -> Answers:
    return Answers(dict(said), **options)


RESOLVED, CANCELLED = ("i1", "resolved"), ("i1", "cancelled")


# What a run says


def test_an_interrupt_is_kept_as_it_came_with_the_moment_of_its_end() -> None:
    said = {"id": "i1", "reason": "x:y", "subagentRunId": "s1", "metadata": {"b": 1, "a": [None, 1e2, "ö\ud83d"]}}
    (draft,) = drafts_of([{**said, "expiresAt": "2026-11-30T13:00:00+01:00"}], "r1")
    assert json.loads(draft.payload) == {**said, "expiresAt": "2026-11-30T13:00:00+01:00"}
    assert (draft.interrupt_id, draft.expires_at) == ("i1", NOW)


@pytest.mark.parametrize("text", ["tomorrow", "", 1764504000000, {"a": 1}, "2026-13-01T00:00:00Z"])
def test_one_whose_end_cannot_be_read_never_ends_and_the_log_says_so(
    text: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "threadkeep.interrupts"):
        (draft,) = drafts_of([{"id": "i1", "expiresAt": text}], "r1")
    assert draft.expires_at is None
    assert f"expiresAt {text!r} of interrupt 'i1' is no timestamp: it never expires run=r1" in caplog.text


def test_what_nobody_could_answer_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    said = ["i0", None, {}, {"id": 7}, {"id": ""}, {"id": "ö" * 251}, {"id": "ö" * 250}]
    assert [draft.interrupt_id for draft in drafts_of(said, "r1")] == ["ö" * 250]
    assert caplog.text.count("is not kept") == 6
    assert drafts_of([], "r1") == []
    assert drafts_of([{"id": "i1"}], "r1") == [InterruptDraft("i1", '{"id": "i1"}')]


@pytest.mark.parametrize(
    ("expires_at", "state"), [(None, "open"), (NOW + 1, "open"), (NOW, "expired"), (NOW - 1, "expired")]
)
def test_one_that_was_open_for_too_long_has_expired(expires_at: int | None, state: str) -> None:
    assert interrupt(expires_at=expires_at).state(NOW) == state
    assert interrupt(expires_at=expires_at, status="resolved").state(NOW) == "resolved"


# What an input says


def test_an_input_answers_by_its_resume() -> None:
    resume = [{"interruptId": "i1", "status": "cancelled", "payload": {"why": "no"}}, {"interruptId": "i2"}]
    assert read_answers({"resume": resume}, "auto").said == {"i1": "cancelled", "i2": "resolved"}
    assert read_answers({"resume": None}, "auto").said == {}


@pytest.mark.parametrize(
    ("resume", "place", "message"),
    [
        ([{"interruptId": "i1", "status": "done"}], ("resume", 0, "status"), "'resolved' or 'cancelled', not 'done'"),
        ([{"interruptId": "i1", "status": None}], ("resume", 0, "status"), "not None"),
        ([*RESUME, *RESUME], ("resume", 1, "interruptId"), "The interrupt 'i1' is answered twice"),
    ],
)
def test_an_entry_that_says_nothing_clear_is_refused(resume: Any, place: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message) as caught:
        read_answers({"resume": resume}, "auto")
    assert caught.value.loc == place


@pytest.mark.parametrize(
    ("version", "rule", "may_leave"),
    [
        (None, "auto", True),
        ("0.1", "auto", True),
        ("soon", "auto", True),
        ("1.0", "auto", False),
        ("1", "auto", False),
        ("12.3", "auto", False),
        ("1.0", "cancel", True),
        (None, "block", False),
    ],
)
def test_clients_of_the_1_line_are_held_to_the_rule(version: str | None, rule: str, may_leave: bool) -> None:
    assert read_answers({"protocolVersion": version}, rule).may_leave is may_leave


def test_results_at_the_end_of_an_input_answer_calls() -> None:
    messages = [
        {"role": "tool", "toolCallId": "c0"},
        {"role": "user"},
        {"role": "tool", "toolCallId": "c1"},
        {"role": "tool", "toolCallId": "c2"},
    ]
    assert read_answers({"messages": messages}, "auto").calls == {"c1", "c2"}
    assert read_answers({"messages": messages[:2]}, "auto").calls == frozenset()


@pytest.mark.parametrize(
    ("props", "has_command"),
    [({"command": {"resume": None}}, True), ({"command": {}}, False), ({"command": "resume"}, False), (None, False)],
)
def test_langgraphs_own_way_to_resume_is_known(props: Any, has_command: bool) -> None:
    assert read_answers({"forwardedProps": props}, "auto").has_command is has_command


# What becomes of the interrupts


def test_each_is_resolved_or_cancelled_as_the_resume_says() -> None:
    said = answers(("i1", "resolved"), ("i2", "cancelled"))
    assert outcome(said, interrupt(), interrupt("i2")) == [("i1", "resolved", False), ("i2", "cancelled", False)]


def test_a_resume_that_leaves_some_open_is_refused_and_names_them() -> None:
    with pytest.raises(Invalid, match="these are missing: 'i2', 'i3'") as caught:
        outcome(answers(RESOLVED), interrupt(), interrupt("i2"), interrupt("i3"), interrupt("i3", "r0"))
    assert caught.value.loc == ("resume",)


def test_an_answer_to_what_nobody_here_knows_is_left_to_the_agent() -> None:
    assert outcome(answers(("elsewhere", "resolved"))) == []
    with pytest.raises(Invalid, match="missing: 'i1'"):
        outcome(answers(("elsewhere", "resolved")), interrupt())


def test_what_has_its_answer_is_refused_and_names_the_run_that_brought_it() -> None:
    done = interrupt(status="resolved", ended_at=NOW, ended_by="r2")
    for said in (RESOLVED, CANCELLED):
        with pytest.raises(InterruptAnswered, match="'i1' was resolved by the run 'r2'") as caught:
            outcome(answers(said), done)
        assert caught.value.run_id == "r2"


def test_an_id_that_is_used_again_means_the_one_that_is_open() -> None:
    done = interrupt(status="resolved", ended_at=NOW, ended_by="r2")
    settled = settle(answers(RESOLVED), [done, interrupt(run="r3")], NOW)
    assert [(each.interrupt.run_id, each.status) for each in settled] == [("r3", "resolved")]


def test_an_expired_one_can_only_be_cancelled() -> None:
    with pytest.raises(InterruptExpired, match=r"'i1' expired at 2026-11-30T11:59:59.999999Z; it can only be cancel"):
        outcome(answers(RESOLVED), expired())
    assert outcome(answers(CANCELLED), expired()) == [("i1", "cancelled", False)]


def test_an_expired_one_needs_no_answer_and_its_agent_is_told_that_it_is_cancelled() -> None:
    assert outcome(answers(("i2", "resolved")), expired(), interrupt("i2")) == [
        ("i1", "cancelled", True),
        ("i2", "resolved", False),
    ]
    assert outcome(answers(may_leave=False), expired()) == [("i1", "cancelled", True)]


def test_one_that_was_cancelled_without_a_run_is_told_with_the_next_and_cannot_be_resolved() -> None:
    dismissed = interrupt(status="cancelled", ended_at=NOW - 5)
    assert outcome(answers(may_leave=False), dismissed) == [("i1", "cancelled", True)]
    assert outcome(answers(CANCELLED), dismissed) == [("i1", "cancelled", False)]
    with pytest.raises(InterruptAnswered, match="'i1' was cancelled without a run") as caught:
        outcome(answers(RESOLVED), dismissed)
    assert caught.value.run_id is None


def test_an_input_without_answers_is_refused_where_it_may_leave_nothing() -> None:
    with pytest.raises(InterruptsOpen, match="open interrupts: 'i1', 'i2'; answer all of them in resume, or") as caught:
        outcome(answers(may_leave=False), interrupt(), interrupt("i2"))
    assert caught.value.interrupt_ids == ["i1", "i2"]


def test_an_input_without_answers_cancels_what_it_leaves_where_it_may() -> None:
    settled = settle(answers(), [interrupt(), interrupt("i2"), interrupt("i2", "r0")], NOW)
    assert [each.status for each in settled] == ["cancelled"] * 3
    assert cancelled_entries(settled) == [
        {"interruptId": "i1", "status": "cancelled"},
        {"interruptId": "i2", "status": "cancelled"},
    ]


@pytest.mark.parametrize("may_leave", [True, False])
def test_the_result_of_its_call_answers_an_interrupt(may_leave: bool) -> None:
    said = answers(calls=frozenset({"c1"}), may_leave=may_leave)
    assert outcome(said, interrupt(call="c1")) == [("i1", "resolved", False)]
    if may_leave:
        assert outcome(said, interrupt(call="c1"), interrupt("i2")) == [
            ("i1", "resolved", False),
            ("i2", "cancelled", True),
        ]


def test_a_command_answers_all_of_them() -> None:
    said = answers(has_command=True, may_leave=False)
    assert outcome(said, interrupt(), interrupt("i2")) == [("i1", "resolved", False), ("i2", "resolved", False)]


@pytest.mark.parametrize("payload", ['"text"', "[1]", "null", '{"toolCallId": 7}'])
def test_a_payload_of_any_json_is_about_no_call(payload: str) -> None:
    assert Interrupt("r1", "i1", 0, payload, "open", None, NOW).call_id is None


@pytest.mark.parametrize(
    ("status", "said", "expected"),
    [
        ("finished", None, False),
        ("errored", None, True),
        ("interrupted", None, True),
        ("interrupted", {"type": "cancelled"}, False),
        ("errored", {"type": "cancelled"}, True),
    ],
)
def test_answers_may_be_given_again_where_the_run_failed_or_was_lost(status: str, said: Any, expected: bool) -> None:
    assert has_failed(status, said) is expected


@pytest.mark.parametrize(
    ("run", "parents", "line"),
    [
        ("r3", [("r1", None), ("r2", None), ("r3", None)], {"r1", "r2", "r3"}),
        ("r3", [("r1", None), ("r2", "r1"), ("r3", "r1")], {"r1", "r3"}),
        ("r4", [("r1", None), ("r2", "r1"), ("r3", "r1"), ("r4", "r2")], {"r1", "r2", "r4"}),
        ("r2", [("r1", None), ("r2", "elsewhere")], {"r1", "r2"}),
        ("r2", [("r1", "r2"), ("r2", "r1")], {"r1", "r2"}),
        ("r1", [("r1", "r1")], {"r1"}),
        ("r9", [("r1", None)], None),
    ],
)
def test_the_line_of_a_run_is_what_it_follows(
    run: str, parents: list[tuple[str, str | None]], line: set[str] | None
) -> None:
    assert lineage(run, parents) == line


def test_the_line_of_a_long_thread_is_found_at_once() -> None:
    parents: list[tuple[str, str | None]] = [(f"r{number}", None) for number in range(20_000)]
    found: Callable[[], object] = lambda: lineage("r19999", parents)  # noqa: E731
    assert found() == {run for run, _ in parents}

"""What the input of a run says to the interrupts of its thread, and what becomes of them. Pure.

AG-UI wants every input of a thread with open interrupts to answer all of them. Clients of its 1.x line are held to it.
Older ones may not know interrupts at all, or have forgotten them when their page was loaded again: what they leave
unanswered is cancelled, and the agent is told so, since it may hold others to the rule.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from threadkeep import clock
from threadkeep.domain.interrupt import CANCELLED, EXPIRED, OPEN, RESOLVED, Interrupt
from threadkeep.domain.run import ERRORED, INTERRUPTED
from threadkeep.errors import InterruptAnswered, InterruptExpired, InterruptsOpen, Invalid

BLOCK = "block"
CANCEL = "cancel"
_FIRST_LINE = re.compile(r"0*[1-9]\d*(\..*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Answers:
    """What an input says. `said` is RESOLVED or CANCELLED by the interrupt's id, from its `resume`."""

    said: Mapping[str, str]
    calls: frozenset[str] = frozenset()
    """Tool calls whose results the input ends with: a frontend's way to answer an interrupt about a call."""
    has_command: bool = False
    """Whether it resumes in LangGraph's older way, which names no interrupt."""
    may_leave: bool = True
    """Whether what it leaves unanswered is cancelled; else the input is refused."""

    def without(self, names: Collection[str]) -> "Answers":
        """What it says to others than these."""
        return replace(self, said={name: status for name, status in self.said.items() if name not in names})


@dataclass(frozen=True, slots=True)
class Settled:
    """What becomes of one interrupt. With `is_told` the agent hears of it by an entry that is put to the `resume`."""

    interrupt: Interrupt
    status: str
    is_told: bool = False


def read_answers(fields: Mapping[str, Any], rule: str) -> Answers:
    """Read the input of a run. `rule` is BLOCK, CANCEL, or anything else for what the client's version says.

    Raises Invalid where an entry of `resume` has no status that there is, or answers what another one has answered.
    """
    said: dict[str, str] = {}
    for place, entry in enumerate(fields.get("resume") or ()):
        identifier, status = entry["interruptId"], entry.get("status", RESOLVED)
        if status not in (RESOLVED, CANCELLED):
            raise Invalid(f"status is {RESOLVED!r} or {CANCELLED!r}, not {status!r}", ("resume", place, "status"))
        if identifier in said:
            raise Invalid(f"The interrupt {identifier!r} is answered twice", ("resume", place, "interruptId"))
        said[identifier] = status
    return Answers(said, _calls(fields), _has_command(fields), not _blocks(fields, rule))


def settle(answers: Answers, found: Sequence[Interrupt], now: int) -> list[Settled]:
    """What becomes of the interrupts that are pending when the run begins.

    `found` are those of the thread that are pending, and of each that is named in the answers the newest one.
    An answer to an interrupt that nobody here knows is between the client and the agent.
    Raises Invalid (some are left unanswered by a `resume`), InterruptAnswered, InterruptExpired, InterruptsOpen.
    """
    pending = [each for each in found if each.is_pending]
    for identifier, status in answers.said.items():
        _check(identifier, status, found, now)
    waiting = [each for each in pending if each.state(now) == OPEN]
    left = [each for each in waiting if _answer(each, answers) is None]
    if left and answers.said:
        raise Invalid(
            f"resume has to answer all open interrupts of the thread; these are missing: {_names(left)}",
            ("resume",),
            "missing",
        )
    if left and not answers.may_leave:
        raise InterruptsOpen([each.interrupt_id for each in left])
    return [_settled(each, answers, now) for each in pending]


def settle_again(answers: Answers, found: Sequence[Interrupt], run_id: str, now: int) -> list[Settled]:
    """As `settle`, for a run that may have ended some of them before, as one that has waited in line has.

    What it has ended stays so, and its agent is told of it as it was to be.
    """
    own = [each for each in found if each.ended_by == run_id]
    others = [each for each in found if each.ended_by != run_id]
    settled = [
        Settled(each, each.status, is_told=each.status == CANCELLED and each.interrupt_id not in answers.said)
        for each in own
    ]
    return settled + settle(answers.without({each.interrupt_id for each in own}), others, now)


def cancelled_entries(settled: Sequence[Settled]) -> list[dict[str, str]]:
    """What is put to the `resume` that the agent is given."""
    names = dict.fromkeys(each.interrupt.interrupt_id for each in settled if each.is_told)
    return [{"interruptId": name, "status": CANCELLED} for name in names]


def has_failed(status: str, outcome: object) -> bool:
    """Whether a run that ended so may be tried again with the same answers: it failed, or its process was lost.

    A run that was cancelled has used them up: the agent has had them, and whoever cancelled it has seen so.
    """
    is_cancelled = isinstance(outcome, Mapping) and outcome.get("type") == "cancelled"
    return status == ERRORED or (status == INTERRUPTED and not is_cancelled)


def lineage(run_id: str, parents: Sequence[tuple[str, str | None]]) -> frozenset[str] | None:
    """The run and those that it follows. `parents` are runs of one thread in the order in which they began, each with
    the one that it names as its parent; one that names none follows the one before it. None where the run is not there.
    """
    before: dict[str, str | None] = {}
    last: str | None = None
    for each, parent in parents:
        before[each] = parent if parent in before else last
        last = each
    if run_id not in before:
        return None
    line: set[str] = set()
    at: str | None = run_id
    while at is not None:
        line.add(at)
        at = before[at]
    return frozenset(line)


def _check(identifier: str, status: str, found: Sequence[Interrupt], now: int) -> None:
    named = [each for each in found if each.interrupt_id == identifier]
    pending = [each for each in named if each.is_pending]
    if any(each.state(now) == OPEN for each in pending):
        return
    if pending and status == RESOLVED:
        last = pending[-1]
        if last.state(now) == EXPIRED:
            raise InterruptExpired(identifier, clock.format_timestamp(last.expires_at or 0))
        raise InterruptAnswered(identifier, last.status, None)
    if named and not pending:
        raise InterruptAnswered(identifier, named[-1].status, named[-1].ended_by)


def _answer(interrupt: Interrupt, answers: Answers) -> str | None:
    """What the input says to an interrupt that is open."""
    if interrupt.interrupt_id in answers.said:
        return answers.said[interrupt.interrupt_id]
    if answers.said:
        return None
    return RESOLVED if answers.has_command or interrupt.call_id in answers.calls else None


def _settled(interrupt: Interrupt, answers: Answers, now: int) -> Settled:
    is_open = interrupt.state(now) == OPEN
    answer = _answer(interrupt, answers) if is_open else None
    if answer is not None:
        return Settled(interrupt, answer)
    return Settled(interrupt, CANCELLED, is_told=interrupt.interrupt_id not in answers.said)


def _calls(fields: Mapping[str, Any]) -> frozenset[str]:
    calls: set[str] = set()
    for message in reversed(fields.get("messages") or ()):
        if message.get("role") != "tool":
            break
        if isinstance(call_id := message.get("toolCallId"), str):
            calls.add(call_id)
    return frozenset(calls)


def _has_command(fields: Mapping[str, Any]) -> bool:
    props = fields.get("forwardedProps")
    command = props.get("command") if isinstance(props, Mapping) else None
    return isinstance(command, Mapping) and "resume" in command


def _blocks(fields: Mapping[str, Any], rule: str) -> bool:
    if rule in (BLOCK, CANCEL):
        return rule == BLOCK
    return _FIRST_LINE.fullmatch(fields.get("protocolVersion") or "") is not None


def _names(interrupts: Sequence[Interrupt]) -> str:
    return ", ".join(dict.fromkeys(repr(each.interrupt_id) for each in interrupts))

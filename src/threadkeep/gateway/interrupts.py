"""Interrupts between the input of a run and the service: what the client answers, and what the agent is told of it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from threadkeep.domain.resume import Answers, Settled, cancelled_entries, read_answers
from threadkeep.gateway.histories import History
from threadkeep.gateway.inputs import RunBody
from threadkeep.services.container import Container


@dataclass(frozen=True, slots=True)
class Reply:
    """What a run says to the interrupts of its thread: `answers` and `seen` are for `Runs.begin`, `body` is for the
    agent.
    """

    answers: Answers
    seen: Sequence[Settled]
    body: RunBody


async def reply_of(container: Container, history: History, session_id: str, body: RunBody) -> Reply:
    """Read the answers of an input and look what they would do.

    Raises Invalid, InterruptAnswered, InterruptExpired, InterruptsOpen.
    """
    answers = read_answers(body.fields, container.settings.open_interrupts)
    seen = await container.interrupts.preview(
        history.principal,
        history.space_id,
        session_id,
        answers,
        run_id=body.run_id,
        parent_run_id=body.parent_run_id,
    )
    return Reply(answers, seen, with_entries(body, cancelled_entries(seen)))


def unseen_reply(container: Container, body: RunBody) -> Reply:
    """The same for a run whose turn is still to come: nobody has looked what its answers would do. Raises Invalid."""
    return Reply(read_answers(body.fields, container.settings.open_interrupts), (), body)


def with_entries(body: RunBody, entries: Sequence[dict[str, str]]) -> RunBody:
    """The body with entries put to its `resume`, whose own keep the text in which they came."""
    if not entries:
        return body
    own = body.fields.get("resume") or []
    before = body.members["resume"].rstrip().removesuffix("]") + "," if own else "["
    text = before + json.dumps(entries, separators=(",", ":")).removeprefix("[")
    return replace(body, fields={**body.fields, "resume": [*own, *entries]}, members={**body.members, "resume": text})

"""Lifecycle strategies: what they may say, and when they are due.

A strategy says what happens to a session (`type`) and when (`trigger`, exactly one).
Running them is the workers' business; here are functions of values, without a clock.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from threadkeep.domain import limits
from threadkeep.errors import Invalid, StrategyClosed

SOFT_DELETE = "soft_delete"
EXTRACT = "extract_memories"
TYPES = (SOFT_DELETE, EXTRACT)
TWO_YEARS = 63_072_000
TRIGGERS = {"ttl": TWO_YEARS, "idle": TWO_YEARS, "eventCount": 1_000_000, "tokenCount": 100_000_000}
"""The largest number that a trigger takes: seconds, events or tokens. The smallest is 1."""
DEFAULT_TTL = 180 * 24 * 3600
"""Seconds after which a session is deleted whose maker said nothing."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """One strategy. `value` is seconds, a number of events or of tokens, or True for `never`."""

    type: str
    trigger: str
    value: int
    opts: str | None = None
    """The options as the JSON text that came."""


DEFAULT = (Strategy(SOFT_DELETE, "ttl", DEFAULT_TTL),)
NOTHING_ASKED = '{"trigger":null,"opts":null}'
"""An extraction that nobody says anything of, as `extraction_payload` puts it."""
# Decimal takes numbers of any length, which int does not.
_DECODER = json.JSONDecoder(parse_int=Decimal)
_HEAD = re.compile(r'[\[,]\{"type":"(\w+)","trigger":(\{[^}]*\}),"opts":\s*')


def parse_strategy(type_: str, trigger: Any, opts: str | None, *loc: str | int) -> Strategy:
    """Read one strategy. Raises Invalid that names the place below `loc`."""
    if type_ not in TYPES:
        raise Invalid(f"{type_!r} is none of {', '.join(TYPES)}", (*loc, "type"))
    kind, value = _parse_trigger(trigger, loc)
    _check_opts(type_, opts, loc)
    return Strategy(type_, kind, value, opts)


def check(strategies: Sequence[Strategy]) -> None:
    """Raise Invalid where there are too many, or two of one type and trigger."""
    if len(strategies) > limits.STRATEGIES:
        raise Invalid(
            f"{len(strategies)} strategies; the limit is {limits.STRATEGIES}", ["lifecycleStrategies"], "too_long"
        )
    seen: set[tuple[str, str]] = set()
    for index, strategy in enumerate(strategies):
        if (strategy.type, strategy.trigger) in seen:
            raise Invalid(
                f"A second {strategy.type} strategy with the trigger {strategy.trigger}", ["lifecycleStrategies", index]
            )
        seen.add((strategy.type, strategy.trigger))


def check_closed(before: Sequence[Strategy], after: Sequence[Strategy], ran: Collection[str]) -> None:
    """Raise StrategyClosed where a type that has run is not left as it is."""
    for type_ in sorted(ran):
        if _of_type(type_, before) != _of_type(type_, after):
            raise StrategyClosed(type_)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the triggers look at. Times in microseconds since 1970."""

    created_at: int
    last_activity_at: int
    """The time of the last event, or of creation where there is none."""
    event_count: int = 0
    token_count: int = 0


@dataclass(frozen=True, slots=True)
class Due:
    """What is to happen to a session now, in this order."""

    extract: Strategy | None
    delete: bool


def due(strategies: Sequence[Strategy], ran: Collection[str], facts: Facts, now: int) -> Due:
    """What is due of the types that have not run. Of several extractions the first in the list is taken."""
    gone_off = [strategy for strategy in _waiting(strategies, ran) if is_due(strategy, facts, now)]
    extractions = [strategy for strategy in gone_off if strategy.type == EXTRACT]
    return Due(extractions[0] if extractions else None, len(gone_off) > len(extractions))


def is_due(strategy: Strategy, facts: Facts, now: int) -> bool:
    """Whether the trigger has gone off."""
    if strategy.trigger == "eventCount":
        return facts.event_count >= strategy.value
    if strategy.trigger == "tokenCount":
        return facts.token_count >= strategy.value
    at = _due_at(strategy, facts)
    return at is not None and at <= now


def last_extraction(strategies: Sequence[Strategy], ran: Collection[str]) -> Strategy | None:
    """The extraction that is to be caught up on when the session ends before it was due; None where none is wanted."""
    wanted = [item for item in _waiting(strategies, ran) if item.type == EXTRACT and item.trigger != "never"]
    return wanted[0] if wanted else None


def next_due_at(strategies: Sequence[Strategy], ran: Collection[str], facts: Facts) -> int | None:
    """The first time at which a trigger of time goes off, if nothing happens until then; None where there is none."""
    times = [_due_at(strategy, facts) for strategy in _waiting(strategies, ran)]
    return min((at for at in times if at is not None), default=None)


def look_at(strategies: Sequence[Strategy], ran: Collection[str], facts: Facts, now: int) -> int | None:
    """When to look at a session whose strategies were changed: at once where one is due or tokens are to be counted."""
    waiting = _waiting(strategies, ran)
    if counts_tokens(strategies, ran) or any(is_due(strategy, facts, now) for strategy in waiting):
        return now
    return next_due_at(strategies, ran, facts)


def counts_tokens(strategies: Sequence[Strategy], ran: Collection[str]) -> bool:
    """Whether a strategy that has not run asks for the number of tokens."""
    return any(strategy.trigger == "tokenCount" for strategy in _waiting(strategies, ran))


def wake_count(strategies: Sequence[Strategy], ran: Collection[str]) -> int | None:
    """The number of events from which on an append makes the session due; None where no strategy counts.

    A count of tokens is unknown until somebody counts, so that each append asks for it.
    """
    if counts_tokens(strategies, ran):
        return 1
    return min((item.value for item in _waiting(strategies, ran) if item.trigger == "eventCount"), default=None)


def _waiting(strategies: Sequence[Strategy], ran: Collection[str]) -> list[Strategy]:
    return [strategy for strategy in strategies if strategy.type not in ran]


def _due_at(strategy: Strategy, facts: Facts) -> int | None:
    anchor = {"ttl": facts.created_at, "idle": facts.last_activity_at}.get(strategy.trigger)
    return None if anchor is None else anchor + strategy.value * 1_000_000


def _of_type(type_: str, strategies: Sequence[Strategy]) -> dict[str, tuple[int, Any]]:
    return {
        strategy.trigger: (strategy.value, _DECODER.decode(strategy.opts or "{}"))
        for strategy in strategies
        if strategy.type == type_
    }


def from_json(text: str) -> tuple[Strategy, ...]:
    """The strategies of a text that `to_json` wrote, their options verbatim."""
    found = []
    place = 0
    while head := _HEAD.match(text, place):
        ((trigger, value),) = json.loads(head[2]).items()
        opts, end = _DECODER.raw_decode(text, head.end())
        found.append(Strategy(head[1], trigger, value, None if opts is None else text[head.end() : end]))
        place = text.index("}", end) + 1
    return tuple(found)


def parse_ran(kept: str) -> frozenset[str]:
    """The types that have run, from the text with commas between that is kept."""
    return frozenset(filter(None, kept.split(",")))


def to_json(strategies: Sequence[Strategy]) -> str:
    """The list as JSON text, the options verbatim."""
    return "[" + ",".join(map(_one_to_json, strategies)) + "]"


def _one_to_json(strategy: Strategy) -> str:
    trigger = json.dumps({strategy.trigger: strategy.value})
    return f'{{"type":"{strategy.type}","trigger":{trigger},"opts":{strategy.opts or "null"}}}'


def extraction_payload(strategy: Strategy, last_sequence_id: int, *, is_final: bool) -> str:
    """What a job of extraction carries, as JSON: why it is there, with which options, and how far it reads."""
    trigger = json.dumps({strategy.trigger: strategy.value})
    return (
        f'{{"trigger":{trigger},"opts":{strategy.opts or "null"},'
        f'"lastSequenceId":{last_sequence_id},"isFinal":{json.dumps(is_final)}}}'
    )


def asks_for_deletion(asked: str) -> bool:
    """Whether the session is to be deleted after an extraction that was asked for so."""
    fields = _DECODER.decode(asked)
    if fields.get("trigger") is None:
        return fields.get("softDelete") is True
    return not fields.get("isFinal") and (fields.get("opts") or {}).get("softDelete", True) is True


def deletes_session(strategy: Strategy) -> bool:
    """Whether the session is to be deleted once its memories are extracted: unless the options say otherwise."""
    return _DECODER.decode(strategy.opts or "{}").get("softDelete", True) is True


def _parse_trigger(trigger: Any, loc: tuple[str | int, ...]) -> tuple[str, int]:
    place = (*loc, "trigger")
    if not isinstance(trigger, dict) or len(trigger) != 1:
        raise Invalid(f"A trigger has exactly one key of {', '.join(TRIGGERS)}, never", place)
    ((kind, value),) = trigger.items()
    if kind == "never":
        if value is not True:
            raise Invalid("never is true, or another trigger is meant", (*place, kind))
        return kind, True
    if kind not in TRIGGERS:
        raise Invalid(f"{kind!r} is none of {', '.join(TRIGGERS)}, never", place)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Invalid(f"{kind} takes a whole number", (*place, kind), "int_type")
    limits.check_range(value, 1, TRIGGERS[kind], *place, kind)
    return kind, value


def _check_opts(type_: str, opts: str | None, loc: tuple[str | int, ...]) -> None:
    if opts is None:
        return
    place = (*loc, "opts")
    fields = _DECODER.decode(opts)
    if not isinstance(fields, dict):
        raise Invalid("opts is an object or null", place, "dict_type")
    if type_ == SOFT_DELETE and fields:
        raise Invalid("soft_delete takes no options", place)
    expected: dict[str, tuple[type, ...]] = {
        "softDelete": (bool,),
        "agentId": (str, type(None)),
        "metadata": (dict, type(None)),
    }
    for name, value in fields.items():
        if name not in expected:
            raise Invalid(f"{name!r} is none of {', '.join(expected)}", (*place, name))
        if not isinstance(value, expected[name]):
            raise Invalid(f"{name} is of the wrong type", (*place, name))
    limits.check_bytes(limits.byte_length(opts), limits.METADATA_BYTES, *place)

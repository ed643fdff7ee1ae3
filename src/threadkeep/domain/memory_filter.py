"""Filters of memories, in the grammar of mem0: read from JSON, and judged on one memory at a time.

A filter is an object whose keys all have to hold. `AND`, `OR` and `NOT` combine others; every other key is a field
with a value, or with an object of operators. What an operator cannot compare does not hold, and never fails.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from threadkeep import clock
from threadkeep.domain.memory import SCOPE_FIELDS, Memory
from threadkeep.errors import Invalid

ANY = "*"
"""In place of an id: whatever it is, as long as there is one."""
_DEEPEST = 20
_LONGEST = 1_000
"""Values of one list, and conditions of one filter."""
_TIMES = {"created_at": "created_at", "updated_at": "updated_at", "timestamp": "created_at"}
_ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda kept, wanted: kept > wanted,
    "gte": lambda kept, wanted: kept >= wanted,
    "lt": lambda kept, wanted: kept < wanted,
    "lte": lambda kept, wanted: kept <= wanted,
}
_EQUAL = ("eq", "ne", "in")
_OPERATORS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(SCOPE_FIELDS, _EQUAL),
    **dict.fromkeys((*_TIMES, "expiration_date"), (*_EQUAL, *_ORDERED)),
    "categories": ("in", "contains"),
    "keywords": ("contains", "icontains"),
    "text": ("eq", "ne", "contains", "icontains"),
    "memory_ids": ("in",),
}
_BY_ITSELF = {"categories": "contains", "keywords": "icontains", "memory_ids": "in"}
"""The operator that a value stands for by itself, where that is not equality."""
# Decimal takes numbers of any length, which int does not.
_DECODER = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) < 4_000 else Decimal(digits))
_COMBINE = ("AND", "OR", "NOT")


@dataclass(frozen=True, slots=True)
class Condition:
    """One field against one value. `key` is the key in the metadata, where the field is that."""

    field: str
    operator: str
    value: Any
    key: str = ""


@dataclass(frozen=True, slots=True)
class Combined:
    """Several filters of which all have to hold (`AND`), any (`OR`), or none (`NOT`)."""

    how: str
    parts: "tuple[Filter, ...]"


Filter = Condition | Combined
EVERYTHING: Filter = Combined("AND", ())
ANYBODY: Filter = Combined("OR", tuple(Condition(name, "eq", ANY) for name in SCOPE_FIELDS))
"""Any of the four ids. That is everything: every memory is about somebody."""


def parse(value: Any, *loc: str | int) -> Filter:
    """Read a filter. Raises Invalid, which names the place below `loc`."""
    found = _parse(value, loc, 0)
    if sum(1 for _ in _conditions(found)) > _LONGEST:
        raise Invalid(f"A filter has at most {_LONGEST:,} conditions", loc, "too_long")
    return found


def both(*filters: Filter) -> Filter:
    """All of them at once."""
    wanted = [each for each in filters if each != EVERYTHING]
    return wanted[0] if len(wanted) == 1 else Combined("AND", tuple(wanted))


def scope_of(found: Filter) -> dict[str, str]:
    """The ids that a memory has to have, whatever else the filter says: what an index can be asked for."""
    if isinstance(found, Condition):
        is_id = found.field in SCOPE_FIELDS and found.operator == "eq" and isinstance(found.value, str)
        return {found.field: found.value} if is_id and found.value != ANY else {}
    if found.how != "AND":
        return {}
    ids: dict[str, str] = {}
    for part in found.parts:
        ids |= {name: value for name, value in scope_of(part).items() if name not in ids}
    return ids


def is_everything(found: Filter) -> bool:
    """Whether the filter holds for every memory."""
    return found in (EVERYTHING, ANYBODY)


def is_scope_alone(found: Filter) -> bool:
    """Whether the filter says no more than `scope_of` tells of it."""
    if isinstance(found, Condition):
        return bool(scope_of(found))
    conditions = list(_conditions(found))
    return (
        found.how == "AND"
        and all(isinstance(part, Condition) or is_scope_alone(part) for part in found.parts)
        and all(scope_of(each) for each in conditions)
        and len(conditions) == len({each.field for each in conditions})
    )


def names_a_scope(found: Filter) -> bool:
    """Whether the filter says whom the memories are about, in any way."""
    return any(condition.field in SCOPE_FIELDS for condition in _conditions(found))


def matches(found: Filter, memory: Memory) -> bool:
    """Whether the filter holds for the memory."""
    if isinstance(found, Combined):
        if found.how == "AND":
            return all(matches(part, memory) for part in found.parts)
        holds = any(matches(part, memory) for part in found.parts)
        return holds if found.how == "OR" else not holds
    return _holds(found, memory)


def _parse(value: Any, loc: tuple[str | int, ...], depth: int) -> Filter:
    if not isinstance(value, dict):
        raise Invalid("A filter is an object", loc, "dict_type")
    if depth > _DEEPEST:
        raise Invalid(f"A filter is nested at most {_DEEPEST} deep", loc, "too_deep")
    parts: list[Filter] = []
    for name, wanted in value.items():
        place = (*loc, name)
        if name in _COMBINE:
            inner = wanted if isinstance(wanted, list) else [wanted]
            parts.append(
                Combined(name, tuple(_parse(each, (*place, index), depth + 1) for index, each in enumerate(inner)))
            )
        elif name == "metadata":
            parts += _metadata(wanted, place)
        elif name in _OPERATORS:
            parts += _field(name, wanted, place)
        else:
            fields = ", ".join([*_OPERATORS, "metadata", *_COMBINE])
            raise Invalid(f"{name!r} is no field of a memory: filters know {fields}", place, "unknown_field")
    return parts[0] if len(parts) == 1 else Combined("AND", tuple(parts))


def _field(name: str, wanted: Any, loc: tuple[str | int, ...]) -> Iterator[Condition]:
    if not isinstance(wanted, dict):
        # A list of values by itself is any of them.
        operator = "in" if isinstance(wanted, list) and "in" in _OPERATORS[name] else _BY_ITSELF.get(name, "eq")
        wanted = {operator: wanted}
    if not wanted:
        raise Invalid(f"{name} has no operator: {', '.join(_OPERATORS[name])}", loc)
    for operator, value in wanted.items():
        place = (*loc, operator)
        if operator not in _OPERATORS[name]:
            raise Invalid(f"{operator!r} is no operator of {name}: {', '.join(_OPERATORS[name])}", place)
        if operator == "in":
            values = value if isinstance(value, list) else [value]
            if len(values) > _LONGEST:
                raise Invalid(f"{len(values):,} values; the limit is {_LONGEST:,}", place, "too_long")
            yield Condition(name, operator, tuple(_value(name, each, place) for each in values))
        else:
            yield Condition(name, operator, _value(name, value, place))


def _metadata(wanted: Any, loc: tuple[str | int, ...]) -> Iterator[Condition]:
    if not isinstance(wanted, dict):
        raise Invalid("metadata is an object of keys and the values that they have", loc, "dict_type")
    for key, value in wanted.items():
        if isinstance(value, dict) and value and set(value) <= {"eq", "ne", "in", "contains", *_ORDERED}:
            for operator, one in value.items():
                if operator == "in" and not isinstance(one, list):
                    raise Invalid("in takes a list", (*loc, key, operator), "list_type")
                yield Condition("metadata", operator, one, key)
        elif key in ("ne", "contains") and isinstance(value, dict):
            yield from (Condition("metadata", "ne" if key == "ne" else "eq", one, name) for name, one in value.items())
        else:
            yield Condition("metadata", "eq", value, key)


def _value(name: str, value: Any, loc: tuple[str | int, ...]) -> Any:
    """The value in the form in which a memory has it. Raises Invalid."""
    if name in _TIMES:
        return _moment(value, loc)
    if value is None and (name in SCOPE_FIELDS or name == "expiration_date"):
        return None
    if not isinstance(value, str):
        raise Invalid(f"{name} is compared with a text", loc, "string_type")
    return value


def _moment(value: Any, loc: tuple[str | int, ...]) -> int:
    """Microseconds of a timestamp, a day, or seconds since 1970. Raises Invalid."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return clock.from_datetime(datetime.fromtimestamp(value, UTC))
        if isinstance(value, str) and len(value) == 10:
            return clock.from_datetime(datetime.fromisoformat(value))
        return clock.parse_timestamp(value if isinstance(value, str) else "")
    except (ValueError, OverflowError, OSError):
        raise Invalid(f"{value!r} is no time such as 2026-11-30T12:00:00Z or 2026-11-30", loc, "date_parsing") from None


def _conditions(found: Filter) -> Iterator[Condition]:
    if isinstance(found, Condition):
        yield found
    else:
        for part in found.parts:
            yield from _conditions(part)


def _holds(condition: Condition, memory: Memory) -> bool:
    name, operator, wanted = condition.field, condition.operator, condition.value
    if name in SCOPE_FIELDS:
        return _compare(operator, getattr(memory.scope, name), wanted)
    if name in _TIMES:
        return _compare(operator, getattr(memory, _TIMES[name]), wanted)
    if name == "expiration_date":
        return _compare(operator, memory.expiration_date, wanted)
    if name == "categories":
        kept = memory.categories
        return wanted in kept if operator == "contains" else any(each in kept for each in wanted)
    if name == "memory_ids":
        return memory.id in wanted
    if name == "metadata":
        return _metadata_holds(operator, _object(memory.metadata), condition.key, wanted)
    if operator == "icontains":
        return str(wanted).casefold() in memory.text.casefold()
    return wanted in memory.text if operator == "contains" else _compare(operator, memory.text, wanted)


def _compare(operator: str, kept: Any, wanted: Any) -> bool:
    if operator == "in":
        return any(_is(kept, each) for each in wanted)
    if operator in _ORDERED:
        return kept is not None and wanted is not None and _ORDERED[operator](kept, wanted)
    return _is(kept, wanted) if operator == "eq" else not _is(kept, wanted)


def _is(kept: Any, wanted: Any) -> bool:
    return kept is not None if wanted == ANY else bool(kept == wanted)


def _object(kept: str | None) -> dict[str, Any]:
    try:
        return dict(_DECODER.decode(kept or "{}"))
    except RecursionError:
        return {}


def _metadata_holds(operator: str, kept: dict[str, Any], key: str, wanted: Any) -> bool:
    there = key in kept
    value = kept.get(key)
    if operator == "eq":
        return there and _same(value, wanted)
    if operator == "ne":
        return not (there and _same(value, wanted))
    if operator == "in":
        return there and any(_same(value, each) for each in wanted)
    if operator == "contains":
        if isinstance(value, str) and isinstance(wanted, str):
            return wanted in value
        return isinstance(value, list) and any(_same(each, wanted) for each in value)
    # Numbers are ordered among themselves, texts among themselves, and nothing else is.
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (value, wanted))
    return (numbers or (isinstance(value, str) and isinstance(wanted, str))) and _ORDERED[operator](value, wanted)


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON values: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    return bool(one == other)

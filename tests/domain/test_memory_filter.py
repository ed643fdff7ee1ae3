"""Filters of memories: what they mean, and what is none."""

from typing import Any

import pytest

from threadkeep import clock
from threadkeep.domain import memory_filter
from threadkeep.domain.memory import Memory, MemoryScope
from threadkeep.errors import Invalid

NOON = clock.parse_timestamp("2026-11-30T12:00:00Z")
MEMORY = Memory(
    "id-1",
    "space",
    MemoryScope("alice", None, "app", "run/1"),
    "Likes GREEN tea",
    '{"topic": "food", "stars": 4, "tags": ["a", "b"], "deep": {"x": [1, true]}, "huge": %s}' % ("9" * 5_000),
    ("food", "drinks"),
    "alice",
    "2026-12-31",
    NOON,
    NOON + 1,
)


def holds(value: Any) -> bool:
    return memory_filter.matches(memory_filter.parse(value), MEMORY)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"user_id": "alice"},
        {"user_id": "*", "app_id": "*"},
        {"agent_id": None},
        {"user_id": {"in": ["bob", "alice"]}},
        {"user_id": ["bob", "alice"]},
        {"user_id": {"ne": "bob"}},
        {"agent_id": {"ne": "bob"}},
        {"agent_id": {"ne": "*"}},
        {"AND": [{"user_id": "alice"}, {"run_id": "run/1"}]},
        {"AND": []},
        {"OR": [{"user_id": "bob"}, {"app_id": "app"}]},
        {"NOT": [{"user_id": "bob"}, {"user_id": "carol"}]},
        {"NOT": {"user_id": "bob"}},
        {"AND": {"user_id": "alice"}, "OR": [{"app_id": "app"}]},
        {"created_at": {"gte": "2026-11-30T12:00:00Z", "lt": "2026-11-30T12:00:01Z"}},
        {"created_at": {"gt": "2026-11-30", "lte": "2026-12-01"}},
        {"created_at": 1_796_040_000},
        {"timestamp": {"gte": 1_796_040_000.0}},
        {"updated_at": {"ne": "2026-11-30T12:00:00Z"}},
        {"created_at": {"in": ["2026-11-30T12:00:00Z"]}},
        {"expiration_date": {"gte": "2026-12-31"}},
        {"categories": {"in": ["food", "x"]}},
        {"categories": {"contains": "drinks"}},
        {"categories": "food"},
        {"categories": ["x", "food"]},
        {"metadata": {"topic": "food"}},
        {"metadata": {"topic": "food", "stars": 4.0}},
        {"metadata": {"topic": {"ne": "drink"}}},
        {"metadata": {"ne": {"topic": "drink"}}},
        {"metadata": {"contains": {"topic": "food"}}},
        {"metadata": {"topic": {"contains": "oo"}}},
        {"metadata": {"tags": {"contains": "b"}}},
        {"metadata": {"stars": {"gt": 3, "lte": 4}}},
        {"metadata": {"stars": {"in": [4, 5]}}},
        {"metadata": {"deep": {"x": [1, True]}}},
        {"metadata": {"absent": {"ne": 1}}},
        {"keywords": {"contains": "GREEN"}},
        {"keywords": {"icontains": "green TEA"}},
        {"keywords": "green"},
        {"text": "Likes GREEN tea"},
        {"memory_ids": ["id-1", "id-2"]},
        {"memory_ids": "id-1"},
    ],
)
def test_it_holds(value: dict[str, Any]) -> None:
    assert holds(value)
    assert not holds({"NOT": [value]})


@pytest.mark.parametrize(
    "value",
    [
        {"user_id": "Alice"},
        {"user_id": "alice", "run_id": "run/2"},
        {"user_id": None},
        {"agent_id": "*"},
        {"agent_id": {"in": []}},
        {"user_id": {"ne": "*"}},
        {"OR": []},
        {"OR": [{"user_id": "bob"}, {"run_id": "r"}]},
        {"NOT": [{"user_id": "bob"}, {"user_id": "alice"}]},
        {"created_at": {"gt": "2026-11-30T12:00:00Z"}},
        {"expiration_date": {"lt": "2026-12-31"}},
        {"expiration_date": None},
        {"categories": {"contains": "foo"}},
        {"metadata": {"topic": "foo"}},
        {"metadata": {"absent": None}},
        {"metadata": {"stars": True}},
        {"metadata": {"stars": {"gt": "3"}}},
        {"metadata": {"topic": {"gt": 3}}},
        {"metadata": {"deep": {"x": [1, 1]}}},
        {"metadata": {"deep": {"x": [1]}}},
        {"metadata": {"stars": {"contains": 4}}},
        {"metadata": {"huge": 9}},
        {"keywords": {"contains": "green"}},
        {"text": {"ne": "Likes GREEN tea"}},
        {"memory_ids": ["id-2"]},
    ],
)
def test_it_does_not_hold(value: dict[str, Any]) -> None:
    assert not holds(value)
    assert holds({"NOT": [value]})


def test_what_expired_never_is_before_no_day() -> None:
    lasting = Memory("1", "s", MemoryScope("a"), "t", None, (), None, None, 0, 0)

    for operator in ("lt", "gt", "lte", "gte"):
        wanted = memory_filter.parse({"expiration_date": {operator: "2026-12-31"}})
        assert not memory_filter.matches(wanted, lasting)
    assert memory_filter.matches(memory_filter.parse({"expiration_date": None}), lasting)


@pytest.mark.parametrize(
    ("value", "place", "said"),
    [
        ([], (), "A filter is an object"),
        ({"user": "a"}, ("user",), "'user' is no field of a memory"),
        ({"AND": [{"x": 1}]}, ("AND", 0, "x"), "'x' is no field"),
        ({"AND": "x"}, ("AND", 0), "A filter is an object"),
        ({"user_id": {"gt": "a"}}, ("user_id", "gt"), "'gt' is no operator of user_id: eq, ne, in"),
        ({"user_id": {}}, ("user_id",), "user_id has no operator"),
        ({"user_id": 5}, ("user_id", "eq"), "user_id is compared with a text"),
        ({"user_id": {"in": [1]}}, ("user_id", "in"), "user_id is compared with a text"),
        ({"created_at": {"gte": "soon"}}, ("created_at", "gte"), "'soon' is no time"),
        ({"created_at": 10**30}, ("created_at", "eq"), "is no time"),
        ({"created_at": None}, ("created_at", "eq"), "is no time"),
        ({"created_at": True}, ("created_at", "eq"), "is no time"),
        ({"metadata": "x"}, ("metadata",), "metadata is an object"),
        ({"metadata": {"a": {"in": 4}}}, ("metadata", "a", "in"), "in takes a list"),
        ({"user_id": {"in": ["x"] * 1_001}}, ("user_id", "in"), "1,001 values; the limit is 1,000"),
        ({"OR": [{"user_id": "x"}] * 1_001}, (), "at most 1,000 conditions"),
    ],
)
def test_what_is_no_filter_is_refused_with_its_place(value: Any, place: tuple[Any, ...], said: str) -> None:
    with pytest.raises(Invalid) as refused:
        memory_filter.parse(value)

    assert refused.value.loc == place
    assert said in refused.value.message


def test_a_filter_that_is_nested_too_deep_is_refused() -> None:
    value: dict[str, Any] = {"user_id": "x"}
    for _ in range(30):
        value = {"NOT": [value]}

    with pytest.raises(Invalid, match="nested at most 20 deep"):
        memory_filter.parse(value)


@pytest.mark.parametrize(
    ("value", "ids", "alone"),
    [
        ({"user_id": "a", "run_id": "r"}, {"user_id": "a", "run_id": "r"}, True),
        ({"AND": [{"user_id": "a"}, {"AND": [{"agent_id": {"eq": "b"}}]}]}, {"user_id": "a", "agent_id": "b"}, True),
        ({"AND": [{"user_id": "a"}, {"user_id": "b"}]}, {"user_id": "a"}, False),
        ({"AND": [{"user_id": "a"}, {"OR": [{"run_id": "r"}]}]}, {"user_id": "a"}, False),
        ({"user_id": "a", "metadata": {"k": 1}}, {"user_id": "a"}, False),
        ({"user_id": "*"}, {}, False),
        ({"user_id": {"ne": "a"}}, {}, False),
        ({"NOT": [{"user_id": "a"}]}, {}, False),
        ({}, {}, True),
    ],
)
def test_the_ids_that_an_index_is_asked_for(value: Any, ids: dict[str, str], alone: bool) -> None:
    found = memory_filter.parse(value)

    assert memory_filter.scope_of(found) == ids
    assert memory_filter.is_scope_alone(found) == alone


def test_any_of_the_four_ids_is_everything() -> None:
    anybody = {"OR": [{name: "*"} for name in ("user_id", "agent_id", "app_id", "run_id")]}

    assert memory_filter.is_everything(memory_filter.parse(anybody))
    assert memory_filter.names_a_scope(memory_filter.parse(anybody))
    assert memory_filter.is_everything(memory_filter.parse({}))
    assert not memory_filter.names_a_scope(memory_filter.parse({}))
    assert not memory_filter.is_everything(memory_filter.parse({"OR": anybody["OR"][:3]}))
    assert memory_filter.names_a_scope(memory_filter.parse({"NOT": [{"run_id": "r"}]}))

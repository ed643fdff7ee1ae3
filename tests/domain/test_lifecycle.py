"""What lifecycle strategies may say."""

import json
from typing import Any

import pytest

from threadkeep.domain import lifecycle
from threadkeep.errors import Invalid


@pytest.mark.parametrize(
    ("type_", "trigger", "opts"),
    [
        ("soft_delete", {"ttl": 1}, None),
        ("soft_delete", {"ttl": 63_072_000}, "{}"),
        ("soft_delete", {"never": True}, None),
        (
            "extract_memories",
            {"eventCount": 1_000_000},
            '{"softDelete": false, "agentId": "a", "metadata": {"k": 1.50}}',
        ),
        ("extract_memories", {"tokenCount": 100_000_000}, '{"agentId": null, "metadata": null}'),
        ("extract_memories", {"idle": 3600}, None),
    ],
)
def test_what_the_contract_allows_is_read(type_: str, trigger: dict[str, Any], opts: str | None) -> None:
    strategy = lifecycle.parse_strategy(type_, trigger, opts)

    text = lifecycle.to_json([strategy])
    assert json.loads(text) == [{"type": type_, "trigger": trigger, "opts": None if opts is None else json.loads(opts)}]
    assert opts is None or opts in text


@pytest.mark.parametrize(
    ("type_", "trigger", "opts", "loc"),
    [
        ("archive", {"ttl": 1}, None, ("type",)),
        ("soft_delete", {}, None, ("trigger",)),
        ("soft_delete", {"ttl": 1, "idle": 1}, None, ("trigger",)),
        ("soft_delete", {"age": 1}, None, ("trigger",)),
        ("soft_delete", {"ttl": 0}, None, ("trigger", "ttl")),
        ("soft_delete", {"ttl": 63_072_001}, None, ("trigger", "ttl")),
        ("soft_delete", {"ttl": True}, None, ("trigger", "ttl")),
        ("soft_delete", {"ttl": 1.5}, None, ("trigger", "ttl")),
        ("soft_delete", {"eventCount": 1_000_001}, None, ("trigger", "eventCount")),
        ("soft_delete", {"never": False}, None, ("trigger", "never")),
        ("soft_delete", {"never": 1}, None, ("trigger", "never")),
        ("soft_delete", {"ttl": 1}, '{"softDelete": true}', ("opts",)),
        ("extract_memories", {"ttl": 1}, '{"softDelete": 1}', ("opts", "softDelete")),
        ("extract_memories", {"ttl": 1}, '{"agentId": 5}', ("opts", "agentId")),
        ("extract_memories", {"ttl": 1}, '{"other": 5}', ("opts", "other")),
    ],
)
def test_what_it_does_not_allow_is_refused_with_its_place(
    type_: str, trigger: dict[str, Any], opts: str | None, loc: tuple[str, ...]
) -> None:
    with pytest.raises(Invalid) as caught:
        lifecycle.parse_strategy(type_, trigger, opts, "lifecycleStrategies", 2)

    assert caught.value.loc == ("lifecycleStrategies", 2, *loc)


def test_there_are_at_most_five_and_no_two_of_one_kind() -> None:
    kinds = [("soft_delete", "ttl"), ("soft_delete", "idle"), ("soft_delete", "eventCount")]
    kinds += [("extract_memories", "ttl"), ("extract_memories", "idle"), ("extract_memories", "eventCount")]
    six = [lifecycle.Strategy(type_, trigger, 1) for type_, trigger in kinds]

    lifecycle.check(six[:5])
    with pytest.raises(Invalid, match="6 strategies; the limit is 5"):
        lifecycle.check(six)
    with pytest.raises(Invalid, match="second soft_delete strategy with the trigger ttl") as caught:
        lifecycle.check([six[0], six[1], six[0]])
    assert caught.value.loc == ("lifecycleStrategies", 2)


def test_options_survive_being_kept_to_the_letter() -> None:
    opts = ['{ "metadata": {"n": 1.50, "}": ["{\\"type\\":"]} }', None, '{"agentId": "a,b"}']
    strategies = [
        lifecycle.Strategy("extract_memories", trigger, 5, each)
        for trigger, each in zip(("ttl", "idle", "eventCount"), opts, strict=True)
    ]
    kept = lifecycle.to_json([*strategies, lifecycle.Strategy("soft_delete", "never", True)])

    assert lifecycle.from_json(kept) == (*strategies, lifecycle.Strategy("soft_delete", "never", True))
    assert lifecycle.from_json("[]") == ()


@pytest.mark.parametrize(
    ("trigger", "value", "facts", "due"),
    [
        ("ttl", 5, lifecycle.Facts(1_000_000, 9_000_000), 6_000_000),
        ("idle", 5, lifecycle.Facts(1_000_000, 9_000_000), 14_000_000),
        ("eventCount", 5, lifecycle.Facts(0, 0, event_count=4), None),
        ("eventCount", 5, lifecycle.Facts(0, 0, event_count=5), 0),
        ("tokenCount", 5, lifecycle.Facts(0, 0, token_count=4), None),
        ("tokenCount", 5, lifecycle.Facts(0, 0, token_count=5), 0),
        ("never", True, lifecycle.Facts(0, 0, 10**9, 10**9), None),
    ],
)
def test_a_trigger_goes_off_at_its_moment_and_not_before(
    trigger: str, value: int, facts: lifecycle.Facts, due: int | None
) -> None:
    strategies = [lifecycle.Strategy("soft_delete", trigger, value)]

    for now in (0, 5_999_999, 6_000_000, 13_999_999, 14_000_000, 10**15):
        expected = due is not None and now >= due
        assert lifecycle.due(strategies, (), facts, now) == lifecycle.Due(None, expected)
        assert lifecycle.due(strategies, {"soft_delete"}, facts, now) == lifecycle.Due(None, False)


def test_the_next_look_is_at_the_first_time_of_what_has_not_run() -> None:
    strategies = [
        lifecycle.Strategy("soft_delete", "ttl", 50),
        lifecycle.Strategy("extract_memories", "idle", 5),
        lifecycle.Strategy("soft_delete", "eventCount", 7),
        lifecycle.Strategy("extract_memories", "eventCount", 3),
    ]
    facts = lifecycle.Facts(0, 1_000_000, event_count=2)

    assert lifecycle.next_due_at(strategies, (), facts) == 6_000_000
    assert lifecycle.next_due_at(strategies, {"extract_memories"}, facts) == 50_000_000
    assert lifecycle.next_due_at(strategies, set(lifecycle.TYPES), facts) is None
    assert lifecycle.wake_count(strategies, ()) == 3
    assert lifecycle.wake_count(strategies, {"extract_memories"}) == 7
    assert lifecycle.wake_count(strategies[:2], ()) is None
    assert lifecycle.wake_count([*strategies, lifecycle.Strategy("soft_delete", "tokenCount", 9)], ()) == 1
    assert lifecycle.look_at(strategies, (), facts, 5) == 6_000_000
    assert lifecycle.look_at(strategies, (), facts, 6_000_000) == 6_000_000
    assert lifecycle.look_at([lifecycle.Strategy("soft_delete", "tokenCount", 9)], (), facts, 5) == 5


def test_of_several_extractions_the_first_in_the_list_is_taken() -> None:
    first, second = (lifecycle.Strategy("extract_memories", trigger, 1) for trigger in ("eventCount", "ttl"))
    never = lifecycle.Strategy("extract_memories", "never", True)
    facts = lifecycle.Facts(0, 0, event_count=1)

    assert lifecycle.due([second, first], (), facts, 10**7) == lifecycle.Due(second, False)
    assert lifecycle.due([second, first], (), facts, 5) == lifecycle.Due(first, False)
    assert lifecycle.last_extraction([never, second, first], ()) == second
    assert lifecycle.last_extraction([never], ()) is None
    assert lifecycle.last_extraction([second], {"extract_memories"}) is None

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

"""What random calls hold: few values each, so that they meet again, and among them what is odd and what is refused."""

from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.api.model import MAX_CONTENT

T = TypeVar("T")
PEOPLE = ["ann", "bob", "ann ", "Ann", "\0", "\ud83d", "😀" * 128]
PIECES = [
    "//thread/",
    "t-1/",
    "T-1/",
    "straße ",
    "STRASSE",
    "İx",
    "100%",
    "_a_",
    "\\",
    "\0",
    "\ud83d",
    "😀",
    "'\"",
    "abc",
]


def mostly(usual: SearchStrategy[T] | Sequence[T], rare: SearchStrategy[T] | Sequence[T]) -> SearchStrategy[T]:
    """The usual most of the time. Neither end of a range tells that it is not: Hypothesis tries the ends more often."""
    choices = [each if isinstance(each, SearchStrategy) else st.sampled_from(each) for each in (usual, rare)]
    return st.integers(0, 11).flatmap(lambda number: choices[number == 7])


callers = st.tuples(st.integers(0, 1), mostly(["alice"], ["bob"]))
"""The server that is called, and who calls."""
numbers = st.tuples(mostly([True], [False]), st.integers(0, 5))
"""Whether to choose among what alice sees or among all that there ever was, and which one from the newest."""
offsets = mostly([0, 0, 0, 0, 1, 2], [5, 2**63 - 1, -1])
sizes = mostly([100, 100, 1, 2, 5], [0, 101])

texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join)
descriptions = mostly(texts, [None, "", "x" * 1_001])
needles = mostly([None], st.lists(st.sampled_from(PIECES), min_size=1, max_size=2).map("".join))
cuts = st.none() | st.none() | st.tuples(st.integers(0, 6), st.integers(3, 12))
keys = mostly([None, None, "k", "K", "k%", "\0", "к\ud83d", "x" * 72], ["", "x" * 73])
sought_keys = mostly([None], keys)
some_people = mostly([[], [], ["ann"], ["bob", "ann "], ["ann", "ann"]], st.lists(st.sampled_from(PEOPLE), max_size=2))

metadata = st.sampled_from([None, {}, {"version": 7, "userId": "bob"}, {"b": [1.50, "\ud83d"], "a": {"\0": None}}])
strategies = st.lists(
    st.sampled_from(
        [
            {"type": "soft_delete", "trigger": {"ttl": 63_072_000}},
            {"type": "soft_delete", "trigger": {"never": True}, "opts": None},
            {"type": "extract_memories", "trigger": {"eventCount": 1_000_000}, "opts": {"agentId": "a\0"}},
            {"type": "extract_memories", "trigger": {"idle": 63_072_000}, "opts": {"metadata": {"x": 1.0}}},
            {"type": "soft_delete", "trigger": {"idle": 60_000_000}},
        ]
    ),
    min_size=1,
    max_size=2,
)


def some_of(**fields: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    """A JSON object with any of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


space_texts = {
    "description": descriptions,
    "llmModelName": mostly([None, "m\0"], ["x" * 201]),
    "llmBaseUrl": mostly([None, "http://x"], ["x" * 2_084]),
}
spaces = some_of(**space_texts, deduplicationKey=keys)
space_changes = some_of(**space_texts)
sessions = st.builds(
    lambda people, rest: {"participants": people, **rest},
    mostly(st.lists(st.sampled_from(PEOPLE), min_size=1, max_size=3), [[], ["a", ""], ["a"] * 51]),
    some_of(
        description=descriptions, metadata=metadata, lifecycleStrategies=st.none() | strategies, deduplicationKey=keys
    ),
)
session_changes = some_of(description=descriptions, metadata=metadata, lifecycleStrategies=mostly(strategies, [[]]))

types = mostly(["message", "message", "status", "\0", "x" * 100], ["x" * 101])
event_types = mostly([None, "message", "status", "\0"], ["", "x" * 101])
bodies = mostly(
    [
        {"content": "hello"},
        {"content": "a\0b\ud83d"},
        {},
        {"z": 1.0, "a": {"\0": [1e300, -0.0, 2**60, None]}, "sequenceId": 99, "createdAt": "2000"},
        {"content": "😀" * MAX_CONTENT},
    ],
    [{"content": ""}, {"content": "x" * (MAX_CONTENT + 1)}, {"content": 5}, []],
)
emitters = mostly(
    [{"type": "agent"}, {"type": "agent", "id": "bot\0"}, {"type": "user", "id": "ann"}],
    st.sampled_from([{"type": "user"}, {"type": "tool"}, {"type": "user", "id": "x" * 129}])
    | st.sampled_from(PEOPLE).map(lambda name: {"type": "user", "id": name}),
)
lookups = st.lists(mostly(["a", "b", "c", "\0", "к\ud83d", "x" * 128], ["", "x" * 129]), max_size=3)
looked_up = st.lists(
    mostly(["a", "b", "c", "\0", "к\ud83d", "?"], ["", "x" * 129]), min_size=1, max_size=3, unique=True
)
drafts = st.fixed_dictionaries(
    {"body": bodies, "emitter": emitters}, optional={"type": types, "deduplicationKey": keys, "lookupKeys": lookups}
)
plain_drafts = st.fixed_dictionaries(
    {"body": st.just({"n": 1.0}), "emitter": st.just({"type": "agent"})},
    optional={"type": st.sampled_from(["message", "status"]), "lookupKeys": lookups},
)
batches = mostly(st.lists(plain_drafts, min_size=1, max_size=5), st.lists(drafts, max_size=3))
repeats = mostly([1, 1, 1, 30], [201])
_CHANGED = {"body": bodies, "type": types, "emitter": emitters, "lookupKeys": lookups}
changes = mostly(
    st.sampled_from(["body", "type", "type", "emitter", "lookupKeys", "lookupKeys"]).flatmap(
        lambda name: st.fixed_dictionaries({name: _CHANGED[name]})
    ),
    some_of(**_CHANGED),
)
versions_behind = mostly([None, 0], [1, -1])
tokens = mostly(["none", "right", "right", "stale"], ["cut"])
places = mostly([0, 0, 1, 2], [-1, -2, 7])
"""Which of the events that are there, counted from the newest; a number that was never given where there is none."""
changed_events = mostly(
    st.lists(
        st.tuples(st.integers(0, 2), changes, tokens),
        min_size=1,
        max_size=3,
        unique_by=lambda item: item[0],
    ),
    st.lists(st.tuples(st.integers(-1, 4), changes, tokens), max_size=4),
)
"""Events counted from the newest, what is to change, and what token is given."""

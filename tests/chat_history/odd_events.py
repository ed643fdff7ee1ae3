"""Streams that no agent should send, drawn at random: every type, odd fields, and JSON of any kind."""

from typing import Any

from hypothesis import strategies as st

from tests.chat_history.scripts import finished
from threadkeep.chat_history.ag_ui.fold import FOLDED_TYPES

TERMINALS = {"RUN_FINISHED", "RUN_ERROR"}
# Surrogate halves and NUL included: both are legal in JSON.
ODD_TEXT = st.text(st.characters(exclude_categories=()), max_size=6) | st.sampled_from(["\x00", "\ud83d", "\ude00"])
IDS = st.sampled_from(["m1", "m2", "c1", "c2", "z1", "s1", "s2", "", None, 7, True, 1.5, ["x"], {"a": 1}])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | ODD_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
PARTS = st.lists(
    st.fixed_dictionaries(
        {}, optional={"type": st.sampled_from(["text", "image", "binary", "odd", None]), "text": ANYTHING}
    ),
    max_size=3,
)
PATHS = st.sampled_from(["", "/", "/a", "/a/b", "/a/0", "/a/-", "/9", "a", "~2", None, 3])
PATCHES = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "odd", None])},
        optional={"path": PATHS, "from": PATHS, "value": ANYTHING},
    )
    | ANYTHING,
    max_size=3,
)
OUTCOMES = st.sampled_from(["success", "interrupt", "cancelled", {"type": "suspended"}, {"type": 1}, [], None])
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "id": IDS,
            "role": st.sampled_from(["user", "assistant", "tool", "reasoning", "activity", None, 3]),
            "content": ANYTHING | PARTS,
            "toolCalls": ANYTHING | st.lists(st.fixed_dictionaries({"id": IDS, "function": ANYTHING}), max_size=2),
            "toolCallId": IDS,
            "metadata": ANYTHING,
            "encryptedValue": ODD_TEXT,
            "error": ANYTHING,
        },
    )
    | ANYTHING,
    max_size=4,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "messageId": IDS,
    "toolCallId": IDS,
    "parentMessageId": IDS,
    "subagentRunId": IDS,
    "parentSubagentRunId": IDS,
    "parentToolCallId": IDS,
    "delta": ODD_TEXT | ANYTHING | PATCHES,
    "patch": PATCHES | ANYTHING,
    "content": ANYTHING | PARTS,
    "replace": st.sampled_from([True, False, None, 0]),
    "snapshot": ANYTHING,
    "role": st.sampled_from(["assistant", "user", "system", "tool", None, 1, [], {}]),
    "toolCallName": ODD_TEXT | ANYTHING,
    "activityType": ODD_TEXT | ANYTHING,
    "name": ANYTHING,
    "description": ANYTHING,
    "stepName": IDS,
    "title": ANYTHING,
    "subtype": st.sampled_from(["message", "tool-call", None, 1]),
    "entityId": IDS,
    "encryptedValue": ODD_TEXT | ANYTHING,
    "messages": MESSAGES | ANYTHING,
    "metadata": ANYTHING | st.dictionaries(ODD_TEXT, ANYTHING, max_size=2),
    "outcome": OUTCOMES,
    "result": ANYTHING,
    "error": ANYTHING,
    "timestamp": ANYTHING,
}
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from([*sorted(FOLDED_TYPES - TERMINALS), "RAW", "QUANTUM_FOAM"])}, optional=FIELDS
)
ENDINGS = st.sampled_from(
    [
        finished(),
        finished(outcome={"type": "cancelled"}),
        finished(outcome={"type": "interrupt", "interrupts": [{"id": "i"}, 3]}),
        finished(outcome={"type": "success", "pendingToolCallIds": ["c1", 3, None]}),
        finished(outcome="interrupt", interrupt={"id": "i"}),
        finished(outcome=[1], result={"a": float("nan")}, usage={"inputTokens": 1}, metadata={"k": 1}),
        {"type": "RUN_ERROR"},
        {"type": "RUN_ERROR", "message": {"not": "text"}, "usage": [1], "code": 7},
    ]
)

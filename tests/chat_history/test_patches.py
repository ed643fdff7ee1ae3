"""JSON Patch: the operations, and that nothing handed in is changed."""

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.chat_history.ag_ui.patches import BadPatch, patched

DOCUMENT = {
    "n": 1,
    "list": [{"a": 1}, {"b": 2}],
    "deep": {"er": {"x": [1, 2, 3]}},
    "": 0,
    "a/b": {"~": 1},
    "7": {"a": 1},
}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        (
            [{"op": "replace", "path": "/n", "value": 2}, {"op": "add", "path": "/m", "value": None}],
            {"n": 2, "m": None},
        ),
        ([{"op": "add", "path": "/list/1", "value": 0}], {"list": [{"a": 1}, 0, {"b": 2}]}),
        ([{"op": "add", "path": "/list/-", "value": 0}], {"list": [{"a": 1}, {"b": 2}, 0]}),
        ([{"op": "remove", "path": "/deep/er/x/1"}], {"deep": {"er": {"x": [1, 3]}}}),
        (
            [{"op": "move", "from": "/deep/er", "path": "/list/0/a"}],
            {"deep": {}, "list": [{"a": {"x": [1, 2, 3]}}, {"b": 2}]},
        ),
        ([{"op": "copy", "from": "/list/0", "path": "/n"}, {"op": "add", "path": "/n/a", "value": 9}], {"n": {"a": 9}}),
        ([{"op": "replace", "path": "/a~1b/~0", "value": 2}], {"a/b": {"~": 2}}),
        ([{"op": "replace", "path": "/", "value": 5}], {"": 5}),
        ([{"op": "replace", "path": "/7/a", "value": 2}], {"7": {"a": 2}}),
        ([{"op": "test", "path": "/n", "value": 1}], {}),
        ([], {}),
    ],
)
def test_operations_do_what_the_standard_says(operations: list[Any], expected: dict[str, Any]) -> None:
    before = copy.deepcopy(DOCUMENT)
    assert patched(before, operations) == {**DOCUMENT, **expected}
    assert before == DOCUMENT


def test_the_whole_document_can_be_replaced() -> None:
    assert patched({"a": 1}, [{"op": "replace", "path": "", "value": [1]}]) == [1]
    assert patched(None, [{"op": "add", "path": "", "value": {"a": 1}}]) == {"a": 1}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/none", "value": 1},
        {"op": "add", "path": "/none/x", "value": 1},
        {"op": "add", "path": "/list/9", "value": 1},
        {"op": "add", "path": "/n/x", "value": 1},
        {"op": "add", "path": "no pointer", "value": 1},
        {"op": "add", "path": None, "value": 1},
        {"op": "add", "path": "/x"},
        {"op": "move", "path": "/x"},
        {"op": "test", "path": "/n", "value": 2},
        {"op": "odd", "path": "/n"},
        {"path": "/n"},
        ["add"],
        7,
        None,
    ],
    ids=str,
)
def test_a_patch_that_cannot_be_done_is_not_done_at_all(operation: Any) -> None:
    document = copy.deepcopy(DOCUMENT)
    with pytest.raises(BadPatch):
        patched(document, [{"op": "remove", "path": "/n"}, operation])
    assert document == DOCUMENT


KEYS = st.sampled_from(["a", "b", "0", "1", "-"])
VALUES = st.recursive(
    st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
POINTERS = st.lists(KEYS, max_size=3).map(lambda parts: "".join(f"/{part}" for part in parts))
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy"]), "path": POINTERS},
    optional={"from": POINTERS, "value": VALUES},
)


@given(VALUES, st.lists(OPERATIONS, max_size=4))
def test_copying_only_the_path_gives_what_copying_everything_gives(document: Any, operations: list[Any]) -> None:
    before = copy.deepcopy((document, operations))
    try:
        expected = jsonpatch.apply_patch(copy.deepcopy(document), copy.deepcopy(operations))
    except Exception:
        with pytest.raises(BadPatch):
            patched(document, operations)
    else:
        assert patched(document, operations) == expected
    assert (document, operations) == before

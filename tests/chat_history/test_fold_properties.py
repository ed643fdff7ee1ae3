"""What the fold promises for all streams: the same history however a stream is cut, and no stream that it fails on."""

import copy
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.chat_history.all_types import TYPES
from tests.chat_history.folded import NOW, fold, row, rows
from tests.chat_history.odd_events import ANYTHING, ENDINGS, EVENTS, ODD_TEXT
from tests.chat_history.scripts import called, finished, result, run_of, said, thought
from threadkeep.chat_history.ag_ui.fold import FOLDED_TYPES, Fold
from threadkeep.chat_history.ag_ui.lenient import joined_surrogates, plain
from threadkeep.chat_history.ag_ui.records import Row
from threadkeep.chat_history.ag_ui.stored_rows import values_of
from threadkeep.chat_history.constants import MessageStatus
from threadkeep.chat_history.models import Message

TEXTS = st.text(st.characters(exclude_categories=()), max_size=40).map(joined_surrogates)
Fields = Mapping[str, Any]


def cut(data: st.DataObject, text: str) -> list[str]:
    """The text in pieces; a piece may be empty, and end between the halves of a surrogate pair."""
    units = text.encode("utf-16-le", "surrogatepass")
    places = sorted(data.draw(st.lists(st.integers(0, len(units) // 2), max_size=8)))
    bounds = [0, *places, len(units) // 2]
    return [units[2 * start : 2 * end].decode("utf-16-le", "surrogatepass") for start, end in pairwise(bounds)]


def mixed(data: st.DataObject, streams: Sequence[Sequence[Fields]]) -> list[Fields]:
    """The events of several streams, each in its order, in any order of turns."""
    turns = data.draw(st.permutations([place for place, stream in enumerate(streams) for _ in stream]))
    waiting = [list(stream) for stream in streams]
    return [waiting[turn].pop(0) for turn in turns]


@given(st.data(), TEXTS, TEXTS, TEXTS)
def test_however_a_text_is_cut_into_deltas_the_history_is_the_same(
    data: st.DataObject, text: str, arguments: str, thinking: str
) -> None:
    def run(texts: list[str], args: list[str], thoughts: list[str]) -> list[dict[str, Any]]:
        begin, _, end = called("c1", parent="m1")
        deltas = [{"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": delta} for delta in args]
        return rows(fold(run_of(thought("z1", *thoughts), said("m1", *texts), begin, deltas, end, result("c1"))))

    arguments = f'{{"said": "{arguments}'
    whole = run([text], [arguments], [thinking])
    assert run(cut(data, text), cut(data, arguments), cut(data, thinking)) == whole
    assert whole[0]["text"] == text
    assert whole[0]["calls"][0][1] == arguments


@given(st.data(), TEXTS, TEXTS, TEXTS)
def test_however_a_text_is_cut_into_chunks_the_history_is_the_same(
    data: st.DataObject, text: str, arguments: str, thinking: str
) -> None:
    def chunks(kind: str, first: Fields, pieces: list[str]) -> list[Fields]:
        return [{"type": kind, **(first if at == 0 else {}), "delta": piece} for at, piece in enumerate(pieces)]

    arguments = f'{{"said": "{arguments}'
    call = {"toolCallId": "c1", "toolCallName": "f"}
    folded = fold(
        run_of(
            chunks("REASONING_MESSAGE_CHUNK", {"messageId": "z1"}, cut(data, thinking)),
            chunks("TEXT_MESSAGE_CHUNK", {"messageId": "m1"}, cut(data, text)),
            chunks("TOOL_CALL_CHUNK", call, cut(data, arguments)),
            result("c1"),
        )
    )
    thoughts = [(thinking, "complete")] if thinking else []
    calls = [("c1", arguments, "ok", "complete")]
    assert rows(folded) == [row("m1", text, calls=calls, reasonings=thoughts)]


@given(st.data())
def test_however_independent_calls_interleave_the_history_is_the_same(data: st.DataObject) -> None:
    begins = [called(f"c{n}", f"tool{n}", parent="m1")[0] for n in range(3)]
    tails = [
        [
            {"type": "TOOL_CALL_ARGS", "toolCallId": f"c{n}", "delta": '{"n":'},
            {"type": "TOOL_CALL_ARGS", "toolCallId": f"c{n}", "delta": f"{n}}}"},
            {"type": "TOOL_CALL_END", "toolCallId": f"c{n}"},
            result(f"c{n}", f"r{n}"),
        ]
        for n in range(3)
    ]
    assert rows(fold(run_of(begins, mixed(data, tails)))) == [
        row("m1", "", calls=[(f"c{n}", f'{{"n":{n}}}', f"r{n}", "complete") for n in range(3)])
    ]


@given(st.data())
def test_however_subagents_talk_at_once_each_says_what_it_says_alone(data: st.DataObject) -> None:
    def alone(name: str) -> list[Fields]:
        events = [
            *thought(f"z{name}", "hm"),
            *said(f"m{name}", "Let me ", "look"),
            *called(f"c{name}", "look"),
            result(f"c{name}", "seen"),
            *called(f"d{name}", "ask"),
            {"type": "TEXT_MESSAGE_CHUNK", "messageId": f"n{name}", "delta": "Do"},
            {"type": "TEXT_MESSAGE_CHUNK", "delta": "ne"},
        ]
        begin = {"type": "SUBAGENT_STARTED", "subagentRunId": name, "name": f"agent {name}"}
        return [begin, *({**event, "subagentRunId": name} for event in events)]

    names = ("a", "b", "c")
    folded = fold(run_of(mixed(data, [alone(name) for name in names])))
    for name in names:
        mine = [each for each in folded.rows if each.subagent_run_id == name]
        expected = fold(run_of(alone(name)))
        assert rows_of(mine) == rows(expected)
        assert {each.name for each in mine} == {f"agent {name}"}


def rows_of(some: list[Row]) -> list[dict[str, Any]]:
    folded = Fold(NOW)
    folded.turn.rows = some
    return rows(folded)


@given(st.lists(EVENTS, max_size=25), ENDINGS | st.sampled_from(list(MessageStatus)))
def test_no_sequence_of_events_raises_and_every_record_comes_to_its_end(events: list[Any], ending: Any) -> None:
    folded = fold(events)
    ordered = [row.timestamp for row in folded.rows]
    assert ordered == sorted(set(ordered))
    if isinstance(ending, MessageStatus):
        if ending is MessageStatus.ACTIVE:
            return
        folded.finish(ending, NOW)
    else:
        folded.apply(ending["type"], ending, NOW)
    for each in folded.rows:
        assert each.status is not MessageStatus.ACTIVE
        assert all(step.status is not MessageStatus.ACTIVE for step in each.reasonings)
        assert all(agent.status is not MessageStatus.ACTIVE for agent in each.subagents)
        assert all(call.status is not MessageStatus.ACTIVE or call.awaiting for call in each.calls)
    assert not folded.turn.pending


@given(
    st.lists(st.tuples(ODD_TEXT | st.sampled_from(["STATE_DELTA"]), st.dictionaries(ODD_TEXT, ANYTHING)), max_size=9)
)
def test_no_json_raises_whatever_its_type(events: list[tuple[str, Any]]) -> None:
    folded = Fold(NOW)
    for kind, fields in events:
        folded.apply(kind, fields, NOW)
    folded.finish(MessageStatus.INTERRUPTED, NOW)


@given(st.lists(EVENTS, max_size=25), ENDINGS)
def test_whatever_was_folded_can_be_stored_and_read_again(events: list[Any], ending: Any) -> None:
    folded = fold([*events, ending])
    for each in folded.rows:
        values, calls, steps = values_of(each)
        parts = {
            "tool_calls": [given_of(each) for _, each in calls],
            "reasonings": [given_of(each) for _, each in steps],
        }
        message = Message(role=each.role, **given_of(values | parts))
        again = json.loads(json.dumps(message.model_dump(mode="json"), allow_nan=False))
        assert Message.model_validate(again).model_dump() == message.model_dump()
    assert json.loads(json.dumps(folded.state.value, allow_nan=False)) == folded.state.value


def given_of(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@given(st.lists(EVENTS, max_size=25), ENDINGS)
def test_the_fold_is_a_function_of_what_it_is_given_and_changes_none_of_it(events: list[Any], ending: Any) -> None:
    stream = [*events, ending]
    before = copy.deepcopy(stream)
    first, second = fold(stream), fold(before)
    assert repr(stream) == repr(before)
    assert snapshot_of(first) == snapshot_of(second)


def snapshot_of(folded: Fold) -> Any:
    return repr(([plain_values(each) for each in folded.rows], folded.state.value, folded.turn.stray))


def plain_values(row: Row) -> Any:
    values, calls, steps = values_of(row)
    return values, [each for _, each in calls], [each for _, each in steps]


@given(st.lists(EVENTS, max_size=25))
def test_what_is_kept_is_told_once_and_before_it_is_changed(events: list[Any]) -> None:
    folded = Fold(NOW)
    told: list[Any] = []
    for event in [*events, finished()]:
        folded.apply(event["type"], event, NOW)
        told += folded.turn.born
        folded.turn.born.clear()
        known = set(map(id, told))
        for each in folded.turn.dirty:
            if isinstance(each, Row):
                assert id(each) in known
                assert all(id(part) in known for part in (*each.calls, *each.reasonings))
    assert len(known) == len(told)
    assert {id(each) for each in folded.rows} == {id(each) for each in told if isinstance(each, Row)}


@given(st.lists(EVENTS, max_size=20), st.data())
def test_what_is_written_whenever_it_has_changed_is_in_the_end_what_is_there(events: list[Any], data: Any) -> None:
    """A writer that takes what is dirty, at any moment, misses nothing."""
    folded = Fold(NOW)
    written: dict[Any, Any] = {}
    for place, event in enumerate([*events, data.draw(ENDINGS)]):
        folded.apply(event["type"], event, NOW + timedelta(milliseconds=place))
        if data.draw(st.booleans()):
            written |= take(folded)
    written |= take(folded)
    assert {row: value for row, value in written.items() if isinstance(row, Row)} == {
        row: repr(plain_values(row)) for row in folded.rows
    }
    if folded.state.changed:
        assert written[folded.state] == repr(folded.state.value)


def take(folded: Fold) -> dict[Any, str]:
    taken = {
        each: repr(plain_values(each)) if isinstance(each, Row) else repr(folded.state.value)
        for each in folded.turn.dirty
    }
    folded.turn.dirty.clear()
    return taken


@given(ANYTHING)
def test_a_plain_copy_is_equal_where_the_value_was_json(value: Any) -> None:
    text = json.dumps(value)
    if "NaN" not in text and "Infinity" not in text:
        assert plain(value) == value
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == plain(value)


def test_every_type_of_both_lines_is_known_or_never_folded() -> None:
    assert {"RAW"} == TYPES - FOLDED_TYPES

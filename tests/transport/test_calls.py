"""Calls: the request that each function stands for, and its encoding."""

from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.transport import calls


def test_each_endpoint_has_its_method_path_and_parameters() -> None:
    event: calls.NewEvent = {"body": {"content": "x"}, "emitter": {"type": "agent"}}
    every: list[calls.Call[object]] = [
        calls.create_space({"description": "d"}),
        calls.list_spaces(offset=1, limit=2, deduplication_key="k"),
        calls.get_space("S"),
        calls.patch_space("S", {"description": None}),
        calls.delete_space("S"),
        calls.create_session("S", {"participants": ["p"]}),
        calls.list_sessions("S", participants=["a", "b"], description="//x/", deduplication_key="k"),
        calls.get_session("S", "T"),
        calls.patch_session("S", "T", {"metadata": {}}, if_match=3),
        calls.delete_session("S", "T"),
        calls.append_event("S", "T", event),
        calls.list_events("S", "T", last_n=5, event_type="message"),
        calls.patch_event("S", "T", 7, {"body": {}}, created_at="2026-01-01T00:00:00.000001Z"),
        calls.delete_event("S", "T", 7),
        calls.append_events("S", "T", [event]),
        calls.patch_events("S", "T", [{"sequenceId": 7, "body": {}}]),
        calls.find_events("S", ["a", "b"], event_type="message", offset=1, limit=2),
        calls.newest_events("S", ["T", "U"], event_type="message"),
        calls.get_version(),
    ]
    assert [f"{call.method} {call.path} {dict(call.headers)} {call.params}" for call in every] == [
        "POST new/ {} ()",
        "GET  {} (('offset', '1'), ('limit', '2'), ('deduplicationKey', 'k'))",
        "GET S/ {} ()",
        "PATCH S/ {} ()",
        "DELETE S/ {} ()",
        "POST S/sessions/ {} ()",
        "GET S/sessions/ {} (('participants', 'a'), ('participants', 'b'), ('description', '//x/'), "
        "('deduplicationKey', 'k'))",
        "GET S/sessions/T/ {} ()",
        "PATCH S/sessions/T/ {'If-Match': '3'} ()",
        "DELETE S/sessions/T/ {} ()",
        "POST S/sessions/T/events/ {} ()",
        "GET S/sessions/T/events/ {} (('lastN', '5'), ('eventType', 'message'))",
        "PATCH S/sessions/T/events/7/ {} (('createdAt', '2026-01-01T00:00:00.000001Z'),)",
        "DELETE S/sessions/T/events/7/ {} ()",
        "POST S/sessions/T/events/batch/ {} ()",
        "PATCH S/sessions/T/events/batch/ {} ()",
        "GET S/events/ {} (('lookupKey', 'a'), ('lookupKey', 'b'), ('eventType', 'message'), ('offset', '1'), "
        "('limit', '2'))",
        "GET S/events/newest/ {} (('sessionId', 'T'), ('sessionId', 'U'), ('eventType', 'message'))",
        "GET version/ {} ()",
    ]
    assert every[14].json == {"events": [event]}
    assert every[15].json == {"events": [{"sequenceId": 7, "body": {}}]}


def test_the_plus_of_a_timestamp_is_escaped() -> None:
    call = calls.patch_event("S", "T", 1, {"type": "x"}, created_at="2026-11-29T12:00:00.123456+00:00")
    assert calls.encode_params(call.params) == "createdAt=2026-11-29T12%3A00%3A00.123456%2B00%3A00"


@pytest.mark.parametrize(
    ("session_id", "segment"),
    [
        ("a/b", "a%2Fb"),
        ("a?b#c&d", "a%3Fb%23c%26d"),
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("a b%", "a%20b%25"),
        ("é", "%C3%A9"),
        ("\ud83d", "%ED%A0%BD"),
    ],
)
def test_an_odd_id_stays_one_segment_of_the_path(session_id: str, segment: str) -> None:
    assert calls.get_session("S", session_id).path == f"S/sessions/{segment}/"


def test_an_empty_id_is_refused_before_it_changes_the_route() -> None:
    with pytest.raises(ValueError, match="session id is empty"):
        calls.delete_session("S", "")


@pytest.mark.parametrize("session_id", [None, True, b"x"])
def test_an_id_that_is_no_text_is_refused(session_id: object) -> None:
    with pytest.raises(TypeError, match="session id is a string"):
        calls.get_session("S", session_id)  # type: ignore[arg-type]


def test_none_is_left_out_of_the_parameters_and_a_list_repeats_its_name() -> None:
    assert calls.build_params({"a": None, "b": ["x", "y"], "c": True, "d": False, "e": 0, "f": ()}) == (
        ("b", "x"),
        ("b", "y"),
        ("c", "true"),
        ("d", "false"),
        ("e", "0"),
    )


@given(st.lists(st.tuples(st.text(min_size=1), st.text())))
def test_any_parameters_come_back_from_the_query_string(pairs: list[tuple[str, str]]) -> None:
    query = calls.encode_params(tuple(pairs))
    assert query.isascii()
    assert parse_qsl(query, keep_blank_values=True, errors="surrogatepass") == pairs


@given(st.text(min_size=1))
def test_any_id_comes_back_from_its_segment(text: str) -> None:
    path = calls.get_space(text).path
    assert path.count("/") == 1
    assert unquote(path[:-1], errors="surrogatepass") == text

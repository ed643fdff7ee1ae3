"""Declared classes: what may be declared, and how values lie on the wire. No service is involved."""

import logging
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from tests.persistence.declared import USER, Chat, ChatMessage, Day, Mood, Note, QuietMessage, RatedChat, Tag
from threadkeep.contract.sessions import Session
from threadkeep.persistence import DRConcurrencyField, DRDeduplicationKey, DREvent, DRRangeKey, DRSession
from threadkeep.persistence.mapping import EventPlan, SessionPlan
from threadkeep.persistence.typed import check_changes, read_values

OWNER = UUID("8f14e45f-ceea-467f-a8f2-0123456789ab")


def plan_of(model: type[DRSession]) -> SessionPlan:
    return SessionPlan.of(model, model.__description_prefix__)


def stored(**fields: Any) -> Session:
    row: dict[str, Any] = {
        "id": "s",
        "participants": [USER],
        "description": "//chat/acme/x/",
        "metadata": {},
        "createdAt": "2026-11-29T12:00:00.123456Z",
        "lifecycleStrategies": [],
        "version": 4,
        "deduplicationKey": "c-1",
    }
    return {**row, **fields}  # type: ignore[typeddict-item,return-value]


def read(model: type[DRSession], row: Session) -> Any:
    return read_values(model, plan_of(model).values(row), lambda: "session s")


def test_each_field_goes_to_the_place_that_its_marker_names() -> None:
    plan = plan_of(Chat)
    draft = plan.draft(
        {
            "participants": [USER],
            "tenant": "acme",
            "topic": "a/b",
            "chat_id": "c-1",
            "title": "Hello",
            "mood": "wild",
            "tags": [{"name": "x"}],
            "owner": OWNER,
        }
    )
    assert plan.new_session(draft, []) == {
        "participants": [USER],
        "description": "//chat/acme/a%2Fb/",
        "deduplicationKey": "c-1",
        "metadata": {
            "title": "Hello",
            "mood": "wild",
            "tags": [{"name": "x", "weight": 1.0}],
            "owner": "8f14e45f-ceea-467f-a8f2-0123456789ab",
            "due": None,
            "extra": {},
        },
    }


def test_a_stored_row_is_read_by_the_declared_types() -> None:
    metadata = {
        "mood": "wild",
        "tags": [{"name": "x", "weight": 2}],
        "owner": str(OWNER),
        "due": "2026-01-02T03:04:05Z",
    }
    chat = read(Chat, stored(metadata=metadata))
    assert (chat.tenant, chat.topic, chat.chat_id, chat.rev) == ("acme", "x", "c-1", 4)
    assert (chat.mood, chat.tags, chat.owner) == (Mood.WILD, [Tag(name="x", weight=2.0)], OWNER)
    assert chat.due.isoformat() == "2026-01-02T03:04:05+00:00"


def test_keys_that_are_no_text_are_read_by_their_types() -> None:
    plan = plan_of(Day)
    body = plan.new_session(plan.draft({"number": 7, "owner": str(OWNER)}), [])
    assert (body["description"], body["deduplicationKey"]) == ("//Day/7/", str(OWNER))
    day = read(Day, stored(description="//Day/7/", deduplicationKey=str(OWNER)))
    assert (day.number, day.owner) == (7, OWNER)


def test_a_subclass_of_a_subclass_keeps_the_declared_prefix_and_a_plain_one_has_its_own_name() -> None:
    class OwnNote(Note):
        pass

    assert (RatedChat.__description_prefix__, Note.__description_prefix__, OwnNote.__description_prefix__) == (
        "chat",
        "Note",
        "OwnNote",
    )
    assert plan_of(RatedChat).range_keys == ("tenant", "topic")
    assert plan_of(RatedChat).metadata[-1] == "stars"


def test_lone_surrogates_and_nul_pass_through_every_place() -> None:
    odd = "a\x00\ud83d"
    plan = plan_of(Chat)
    body = plan.new_session(plan.draft({"tenant": odd, "topic": "x", "chat_id": odd, "title": odd}), [])
    assert body["metadata"] is not None
    assert (body["description"], body["deduplicationKey"], body["metadata"]["title"]) == (f"//chat/{odd}/x/", odd, odd)
    chat = read(Chat, stored(metadata={"title": odd}, description=f"//chat/{odd}/x/", deduplicationKey=odd))
    assert (chat.tenant, chat.chat_id, chat.title) == (odd, odd, odd)


@pytest.mark.parametrize("name", ["participants", "id", "created_at", "version", "lifecycle_strategies"])
def test_a_reserved_name_of_a_session_is_refused_at_the_class(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name}: this field name is reserved"):
        type("Bad", (DRSession,), {"__annotations__": {name: str}, "__module__": __name__})


@pytest.mark.parametrize("name", ["content", "emitter_type", "emitter_id", "sequence_id", "created_at"])
def test_a_reserved_name_of_an_event_is_refused_at_the_class(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name}: this field name is reserved"):
        type("Bad", (DREvent,), {"__annotations__": {name: str}, "__module__": __name__})


def test_two_markers_on_a_field_are_refused_at_the_class() -> None:
    with pytest.raises(TypeError, match="'key' has 2 markers"):

        class Bad(DRSession):
            key: Annotated[str, DRRangeKey, DRDeduplicationKey()]


@pytest.mark.parametrize("marker", [DRDeduplicationKey, DRConcurrencyField])
def test_two_fields_of_a_single_place_are_refused_at_the_class(marker: type) -> None:
    annotations = {"one": Annotated[int, marker], "two": Annotated[int, marker()]}
    with pytest.raises(TypeError, match=f"2 fields marked {marker.__name__}: one, two"):
        type("Bad", (DRSession,), {"__annotations__": annotations, "__module__": __name__})


def test_a_marker_on_an_event_field_is_refused_at_the_class() -> None:
    with pytest.raises(TypeError, match=r"Bad\.key is marked DRRangeKey"):

        class Bad(DREvent, session=Chat):
            key: Annotated[str, DRRangeKey]


def test_an_empty_prefix_is_refused_at_the_class() -> None:
    with pytest.raises(ValueError, match="prefix is empty"):

        class Bad(DRSession):
            __description_prefix__ = ""


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"tenant": ""}, ValueError, "'tenant' is empty"),
        ({"topic": ""}, ValueError, "'topic' is empty"),
        ({"tenant": None}, ValueError, "tenant"),
        ({"topic": "x" * 1_000}, ValueError, "topic.*the limit is 1000"),
        ({"chat_id": ""}, ValueError, "'chat_id' is empty"),
        ({"chat_id": "x" * 73}, ValueError, "'chat_id' has 73 characters; the limit is 72"),
        ({"rev": 3}, ValueError, "'rev' mirrors"),
        ({"title": 5}, ValueError, "title"),
        ({"nope": 1}, TypeError, "unknown field 'nope'"),
        ({"version": 1}, TypeError, "cannot set 'version'"),
        ({"id": "x"}, TypeError, "cannot set 'id'"),
    ],
)
def test_what_post_cannot_take_is_named(fields: dict[str, Any], error: type[Exception], message: str) -> None:
    plan = plan_of(Chat)
    given = {"tenant": "acme", "topic": "x", "chat_id": "c", **fields}
    with pytest.raises(error, match=message):
        plan.new_session(plan.draft(given), [])


def test_a_range_key_that_may_be_none_still_needs_a_value() -> None:
    class Loose(DRSession):
        key: Annotated[str | None, DRRangeKey] = None

    plan = plan_of(Loose)
    with pytest.raises(ValueError, match="'key' is None"):
        plan.new_session(plan.draft({}), [])


@pytest.mark.parametrize(
    ("filters", "error", "message"),
    [
        ({"topic": "x"}, ValueError, "'tenant' is missing"),
        ({"title": "x"}, ValueError, "'title' is none"),
        ({"nope": "x"}, TypeError, "unknown filter 'nope'"),
        ({"tenant": ""}, ValueError, "'tenant' is empty"),
        ({"tenant": None}, ValueError, "'tenant' does not take None"),
        ({"tenant": 5}, ValueError, "'tenant' does not take 5"),
    ],
)
def test_filters_are_leading_range_keys(filters: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        plan_of(Chat).query(filters)


def test_a_query_holds_the_leading_keys() -> None:
    assert plan_of(Chat).query({}) == "//chat/"
    assert plan_of(Chat).query({"tenant": "a/b"}) == "//chat/a%2Fb/"
    assert plan_of(Chat).query({"topic": "y", "tenant": "x"}) == "//chat/x/y/"
    assert plan_of(Day).query({"number": 7}) == "//Day/7/"


def test_rows_that_have_drifted_from_their_class_are_read_as_far_as_they_go(caplog: pytest.LogCaptureFixture) -> None:
    """Field case 134."""
    chat = read(
        RatedChat, stored(metadata={"title": 5, "mood": "angry", "stars": "7", "owner": str(OWNER)}, version=None)
    )
    assert (chat.title, chat.mood, chat.stars, chat.rev) == (5, "angry", 7, None)
    assert (chat.owner, chat.tags, chat.tenant) == (OWNER, [], "acme")
    assert "'title' holds a value of type int, which does not fit" in caplog.text
    assert "'mood'" in caplog.text
    assert "'rev'" in caplog.text
    assert "'owner'" not in caplog.text
    assert caplog.records[0].levelno == logging.WARNING


def test_a_field_that_is_required_now_and_was_not_stored_then_is_none(caplog: pytest.LogCaptureFixture) -> None:
    """Field case 134."""

    class Stricter(DRSession):
        __description_prefix__ = "chat"
        must: int
        title: str = ""

    row = stored(metadata={"title": "old", "unknown": [1]})
    old = read(Stricter, row)
    assert (old.must, old.title) == (None, "old")
    assert "'must' is missing" in caplog.text
    changes = plan_of(Stricter).changes(check_changes(old, {"title": "new"}), row, {"title": "new"})
    assert changes == {"metadata": {"title": "new", "unknown": [1]}}


def test_a_patch_resends_every_declared_field_and_keeps_the_unknown_ones() -> None:
    """Field case 134."""
    row = stored(metadata={"title": "a", "stars": 3, "later": {"x": 1}, "mood": "angry"})
    chat = read(RatedChat, row)
    changes = plan_of(RatedChat).changes(check_changes(chat, {"title": "b"}), row, {"title": "b"})
    assert changes == {
        "metadata": {
            "title": "b",
            "stars": 3,
            "later": {"x": 1},
            "mood": "angry",
            "tags": [],
            "owner": None,
            "due": None,
            "extra": {},
        }
    }
    assert chat.title == "a"


def test_a_row_that_breaks_only_a_rule_between_fields_keeps_its_typed_values() -> None:
    class Range(DRSession):
        low: int = 0
        owner: UUID | None = None

        @model_validator(mode="after")
        def _check(self) -> "Range":
            if self.low > 5:
                raise ValueError("too high")
            return self

    read_back = read(Range, stored(description="//Range/", metadata={"low": "7", "owner": str(OWNER)}))
    assert (read_back.low, read_back.owner) == (7, OWNER)


def test_a_validator_that_raises_by_accident_hides_no_row() -> None:
    class Fragile(DRSession):
        title: str = ""

        @model_validator(mode="after")
        def _check(self) -> "Fragile":
            raise KeyError("oops")

    assert read(Fragile, stored(description="//Fragile/", metadata={"title": "x"})).title == "x"


def test_aliases_of_a_class_stay_off_the_wire_and_those_of_nested_models_round_trip() -> None:
    class Inner(BaseModel):
        deep_name: int = Field(alias="deepName")

    class Aliased(DRSession):
        model_config = ConfigDict(alias_generator=lambda name: name.upper())
        inner: Inner

    plan = plan_of(Aliased)
    body = plan.new_session(plan.draft({"inner": {"deepName": 3}}), [])
    assert body["metadata"] == {"inner": {"deepName": 3}}
    assert read(Aliased, stored(description="//Aliased/", metadata=body["metadata"])).inner.deep_name == 3


def test_an_event_keeps_its_declared_fields_in_the_body() -> None:
    plan = EventPlan.of(ChatMessage)
    draft = plan.draft(
        {"content": "hi", "emitter_type": "user", "emitter_id": USER, "score": 1, "tags": [Tag(name="t")]}
    )
    assert plan.new_event(draft, "message") == {
        "body": {"content": "hi", "score": 1.0, "label": None, "tags": [{"name": "t", "weight": 1.0}]},
        "emitter": {"type": "user", "id": USER},
        "type": "message",
    }


def test_the_envelope_of_an_event_wins_over_names_in_its_body() -> None:
    values = EventPlan.of(ChatMessage).values(
        {
            "sequenceId": 1,
            "body": {"content": "x", "emitter_type": "user", "sequence_id": 99, "score": 2},
            "eventType": "message",
            "emitterType": "agent",
            "emitterId": None,
            "createdAt": "2026-11-29T12:00:00.123456Z",
        }
    )
    assert values == {"content": "x", "score": 2, "emitter_type": "agent", "emitter_id": None}


def test_validators_and_serializers_of_a_class_work_both_ways() -> None:
    plan = EventPlan.of(QuietMessage)
    event = plan.new_event(plan.draft({"content": ""}), "quiet")
    assert event["body"]["content"] == "\u200b"
    assert read_values(QuietMessage, {"content": "\u200b", "emitter_type": "agent"}, lambda: "event 1").content == ""
    # A row with another bad value is read field by field, through the same validators.
    drifted = read_values(QuietMessage, {"content": "\u200b", "score": "much"}, lambda: "event 1")
    assert (drifted.content, drifted.score) == ("", "much")


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"content": 5}, ValueError, "content"),
        ({"content": "x", "emitter_type": "robot"}, ValueError, "emitter_type"),
        ({"content": "x", "nope": 1}, TypeError, "unknown field 'nope'"),
        ({"content": "x", "sequence_id": 1}, TypeError, "cannot set 'sequence_id'"),
    ],
)
def test_what_an_event_cannot_take_is_named(fields: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        EventPlan.of(ChatMessage).draft(fields)

"""The Memory Service as plain lists: what the real one is compared with. No HTTP, no database, no cleverness.

Each method says what the service must answer: the body of a success, or the faults of the request. A request with
several faults may be answered with any of them, and changes nothing. Ids and times are the service's own: the model
takes them from its answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
MAX_CONTENT = 40
"""Characters of a content, in the tests: small, so that more than that is soon written."""
MAX_KEYS = 512
"""Lookup keys of one event."""
DEFAULT_STRATEGIES = [{"type": "soft_delete", "trigger": {"ttl": 15_552_000}, "opts": None}]
TEXTS = {"description": 1_000, "llmModelName": 200, "llmBaseUrl": 2_083, "customInstructions": 10_000}


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a request: the status, and what the body must hold."""

    status: int
    body: tuple[tuple[str, Any], ...] = ()
    detail: str = ""
    """What the detail starts with."""


INVALID = Fault(422)
NOT_THERE = Fault(404)
STRANGER = Fault(400)


class Refused(Exception):
    def __init__(self, *faults: Fault) -> None:
        super().__init__(faults)
        self.faults = faults


@dataclass
class Event:
    fields: Json
    live: bool = True
    past_tokens: list[str] = field(default_factory=list)


@dataclass
class Session:
    fields: Json
    events: list[Event] = field(default_factory=list)
    live: bool = True

    def of_type(self, event_type: str | None) -> list[Json]:
        return [event.fields for event in self.events if event.live and event_type in (None, event.fields["eventType"])]

    def event(self, number: int) -> Event | None:
        found = self.events[number - 1] if 0 < number <= len(self.events) else None
        return found if found is not None and found.live else None


@dataclass
class Space:
    owner: str
    fields: Json
    sessions: list[Session] = field(default_factory=list)
    live: bool = True

    def is_seen_by(self, user: str) -> bool:
        return self.live and self.owner == user


class Model:
    """All that a few users have stored, deleted things included."""

    def __init__(self) -> None:
        self.spaces: list[Space] = []

    def create_space(self, user: str, given: Json) -> Json:
        key = given.get("deduplicationKey")
        faults = _text_faults(given) + _key_faults(key)
        for space in self.spaces:
            if space.live and space.owner == user and key is not None and space.fields["deduplicationKey"] == key:
                faults.append(_conflict("MemorySpace", space.fields["memorySpaceId"]))
        _refuse(faults)
        return {name: given.get(name) for name in (*TEXTS, "deduplicationKey")}

    def list_spaces(self, user: str, offset: int, limit: int, key: str | None) -> Json:
        _refuse(_page_faults(offset, limit))
        mine = [space.fields for space in reversed(self.spaces) if space.live and space.owner == user]
        return _page([each for each in mine if key in (None, each["deduplicationKey"])], offset, limit)

    def space(self, user: str, space: Space, *others: Fault) -> Space:
        """The space, if the user has it."""
        _refuse([*others, *([] if space.is_seen_by(user) else [NOT_THERE])])
        return space

    def patch_space(self, user: str, space: Space, given: Json) -> Json:
        self.space(user, space, *_text_faults(given))
        space.fields |= {name: given[name] for name in TEXTS if name in given}
        return space.fields

    def delete_space(self, user: str, space: Space) -> None:
        self.space(user, space).live = False

    def create_session(self, user: str, space: Space, given: Json) -> Json:
        people, key = given["participants"], given.get("deduplicationKey")
        faults = _text_faults(given) + _key_faults(key) + _strategy_faults(given.get("lifecycleStrategies"))
        if not 1 <= len(people) <= 50 or any(not 1 <= len(name) <= 128 for name in people):
            faults.append(INVALID)
        # Whoever does not see the space hears nothing of what is in it.
        for session in space.sessions if space.is_seen_by(user) else ():
            if session.live and key is not None and session.fields["deduplicationKey"] == key:
                faults.append(_conflict("Session", session.fields["id"]))
        self.space(user, space, *faults)
        return {
            "participants": people,
            "description": given.get("description"),
            "metadata": given.get("metadata"),
            "lifecycleStrategies": _strategies(given.get("lifecycleStrategies")) or DEFAULT_STRATEGIES,
            "version": 1,
            "deduplicationKey": key,
        }

    def list_sessions(
        self,
        user: str,
        space: Space,
        offset: int,
        limit: int,
        people: Sequence[str],
        needle: str | None,
        key: str | None,
    ) -> Json:
        short = [INVALID] if needle is not None and len(needle) < 3 else []
        self.space(user, space, *_page_faults(offset, limit), *short)

        def matches(fields: Json) -> bool:
            described = fields["description"]
            return (
                (not people or bool(set(people) & set(fields["participants"])))
                and (needle is None or (described is not None and needle.casefold() in described.casefold()))
                and (key is None or fields["deduplicationKey"] == key)
            )

        live = [session.fields for session in space.sessions if session.live]
        return _page([fields for fields in live if matches(fields)], offset, limit)

    def session(self, user: str, space: Space, session: Session, *others: Fault) -> Session:
        """The session, if the user has it."""
        _refuse([*others, *([] if _is_there(user, space, session) else [NOT_THERE])])
        return session

    def patch_session(self, user: str, space: Space, session: Session, given: Json, expected: int | None) -> Json:
        faults = _text_faults(given)
        if "lifecycleStrategies" in given:
            faults += _strategy_faults(given["lifecycleStrategies"]) or (
                [] if given["lifecycleStrategies"] else [INVALID]
            )
        if _is_there(user, space, session) and expected not in (None, session.fields["version"]):
            faults.append(Fault(409, detail="Session version mismatch"))
        self.session(user, space, session, *faults)
        session.fields |= {name: given[name] for name in ("description", "metadata") if name in given}
        if "lifecycleStrategies" in given:
            session.fields["lifecycleStrategies"] = _strategies(given["lifecycleStrategies"])
        session.fields["version"] += bool(given)
        return session.fields

    def delete_session(self, user: str, space: Space, session: Session) -> None:
        self.session(user, space, session).live = False

    def append(self, user: str, space: Space, session: Session, drafts: Sequence[Json]) -> list[Json]:
        keys = [key for draft in drafts if (key := draft.get("deduplicationKey")) is not None]
        faults = [] if 1 <= len(drafts) <= 200 and len(set(keys)) == len(keys) else [INVALID]
        there = _is_there(user, space, session)
        for draft in drafts:
            faults += _event_faults(draft, session if there else None) + _key_faults(draft.get("deduplicationKey"))
        for event in session.events if there else ():
            if event.live and event.fields.get("deduplicationKey") in keys:
                number = event.fields["sequenceId"]
                named = ("errorName", "EventDeduplicationConflict"), ("existingSequenceId", number)
                faults.append(Fault(409, named))
        for draft in drafts if there else ():
            faults += _taken(space, draft.get("type"), _lookup_keys(draft), None)
        pairs = [(draft.get("type"), key) for draft in drafts for key in _lookup_keys(draft)]
        faults += [INVALID] if len(set(pairs)) < len(pairs) else []
        self.session(user, space, session, *faults)
        first = len(session.events) + 1
        return [{"sequenceId": first + n, **_event({"type": None, **draft})} for n, draft in enumerate(drafts)]

    def list_events(
        self, user: str, space: Space, session: Session, event_type: str | None, offset: int, limit: int
    ) -> Json:
        self.session(user, space, session, *_page_faults(offset, limit))
        return _page(session.of_type(event_type), offset, limit)

    def events_after(
        self, user: str, space: Space, session: Session, event_type: str | None, after: int, limit: int
    ) -> Json:
        self.session(user, space, session, *_page_faults(after, limit))
        found = session.of_type(event_type)
        later = [fields for fields in found if fields["sequenceId"] > after]
        return {"items": later[:limit], "total": len(found), "offset": 0, "limit": limit}

    def history(self, user: str, space: Space, session: Session, event_type: str | None, after: int) -> Json:
        self.session(user, space, session, *_page_faults(after, 1))
        return {"items": [fields for fields in session.of_type(event_type) if fields["sequenceId"] > after]}

    def last_events(self, user: str, space: Space, session: Session, event_type: str | None, count: int) -> Json:
        self.session(user, space, session, *_page_faults(0, count))
        found = session.of_type(event_type)
        return {"items": found[-count:], "total": len(found), "offset": 0, "limit": count}

    def patch_events(self, user: str, space: Space, session: Session, changes: Sequence[Json]) -> list[Json]:
        """`createdAt` of a change is the token; the items come back with the times that they have now."""
        numbers = [change["sequenceId"] for change in changes]
        faults = [] if 1 <= len(changes) <= 200 and len(set(numbers)) == len(numbers) else [INVALID]
        for change in changes:
            given = {name: value for name, value in change.items() if name in ("body", "type", "emitter")}
            if change.get("lookupKeys"):
                given["lookupKeys"] = change["lookupKeys"]
            there = _is_there(user, space, session)
            stored = session.event(change["sequenceId"]) if there else None
            faults += _event_faults(given, session if there else None) if given else [INVALID]
            if stored is None:
                faults.append(NOT_THERE)
            elif change.get("createdAt") not in (None, stored.fields["createdAt"]):
                faults.append(Fault(422, detail="Patch of incorrect version of event"))
        if not faults and _is_there(user, space, session):
            faults = self._key_faults(space, session, changes)
        self.session(user, space, session, *faults)
        found = [session.events[number - 1] for number in numbers]
        for event, change in zip(found, changes, strict=True):
            event.past_tokens.append(event.fields["createdAt"])
            more = _lookup_keys(change)
            event.fields |= _event({name: value for name, value in change.items() if name != "lookupKeys"})
            if more:
                event.fields["lookupKeys"] = list(dict.fromkeys([*_lookup_keys(event.fields), *more]))
        return [event.fields for event in found]

    @staticmethod
    def _key_faults(space: Space, session: Session, changes: Sequence[Json]) -> list[Fault]:
        """What the first change whose keys are taken hears; one change sees what those before it have done."""
        before = {id(event): dict(event.fields) for event in session.events}
        faults: list[Fault] = []
        for change in changes:
            event = session.events[change["sequenceId"] - 1]
            event.fields |= {"eventType": change["type"]} if change.get("type") is not None else {}
            keys = list(dict.fromkeys([*_lookup_keys(event.fields), *_lookup_keys(change)]))
            faults = _taken(space, event.fields["eventType"], keys, event)
            if len(keys) > MAX_KEYS:
                faults.append(INVALID)
            if faults:
                break
            event.fields["lookupKeys"] = keys
        for event in session.events:
            event.fields.clear()
            event.fields.update(before[id(event)])
        return faults

    def find_events(
        self, user: str, space: Space, keys: Sequence[str], event_type: str | None, offset: int, limit: int
    ) -> Json:
        wrong = [] if keys and all(_fits(key, 1, 128) for key in keys) else [INVALID]
        self.space(user, space, *_page_faults(offset, limit), *wrong)
        found = [
            {**event.fields, "sessionId": session.fields["id"]}
            for session in sorted(space.sessions, key=lambda session: str(session.fields["id"]))
            for event in session.events
            if session.live and event.live and event_type in (None, event.fields["eventType"])
            if set(keys) & set(_lookup_keys(event.fields))
        ]
        return _page(found, offset, limit)

    def newest_events(self, user: str, space: Space, ids: Sequence[str], event_type: str | None) -> Json:
        self.space(user, space)
        found = [
            {**events[-1], "sessionId": session.fields["id"]}
            for session in sorted(space.sessions, key=lambda session: str(session.fields["id"]))
            if session.live and session.fields["id"] in ids and (events := session.of_type(event_type))
        ]
        return _page(found, 0, 100)

    def delete_event(self, user: str, space: Space, session: Session, number: int) -> None:
        found = session.event(number)
        self.session(user, space, session, *([] if found else [NOT_THERE]))
        assert found is not None
        found.live = False


def _is_there(user: str, space: Space, session: Session) -> bool:
    return space.is_seen_by(user) and session.live


def _event(given: Json) -> Json:
    """What the fields of a request become in an event; what is not given is left out."""
    emitter = given.get("emitter")
    return {
        **({"body": given["body"]} if "body" in given else {}),
        **({"eventType": given["type"]} if "type" in given else {}),
        **({"emitterType": emitter["type"], "emitterId": emitter.get("id")} if emitter else {}),
        **({"deduplicationKey": given["deduplicationKey"]} if given.get("deduplicationKey") is not None else {}),
        **({"lookupKeys": list(dict.fromkeys(given["lookupKeys"]))} if given.get("lookupKeys") else {}),
    }


def _lookup_keys(fields: Json) -> list[str]:
    return list(dict.fromkeys(fields.get("lookupKeys") or []))


def _taken(space: Space, event_type: str | None, keys: Sequence[str], mine: Event | None) -> list[Fault]:
    return [
        Fault(
            409,
            (
                ("errorName", "EventLookupConflict"),
                ("existingSessionId", session.fields["id"]),
                ("existingSequenceId", event.fields["sequenceId"]),
            ),
        )
        for session in space.sessions
        for event in session.events
        if session.live and event.live and event is not mine and event.fields["eventType"] == event_type
        if set(keys) & set(_lookup_keys(event.fields))
    ]


def _event_faults(given: Json, session: Session | None) -> list[Fault]:
    faults = []
    body, type_, emitter = given.get("body", {}), given.get("type"), given.get("emitter", {"type": "agent"})
    if not isinstance(body, dict) or not _fits(body.get("content", "x"), 1, MAX_CONTENT):
        faults.append(INVALID)
    if type_ is not None and not _fits(type_, 1, 100):
        faults.append(INVALID)
    if emitter["type"] not in ("user", "agent") or not _fits(emitter.get("id") or "", 0, 128):
        faults.append(INVALID)
    if not all(_fits(key, 1, 128) for key in given.get("lookupKeys") or []):
        faults.append(INVALID)
    if emitter["type"] == "user":
        known = session is None or emitter.get("id") in session.fields["participants"]
        faults += [] if known and "id" in emitter else [STRANGER]
    return faults


def _text_faults(given: Json) -> list[Fault]:
    return [INVALID for name, most in TEXTS.items() if not _fits(given.get(name) or "", 0, most)]


def _key_faults(key: str | None) -> list[Fault]:
    return [] if key is None or _fits(key, 1, 72) else [INVALID]


def _strategy_faults(given: list[Json] | None) -> list[Fault]:
    kinds = [(strategy["type"], *strategy["trigger"]) for strategy in given or ()]
    return [] if len(kinds) <= 5 and len(set(kinds)) == len(kinds) else [INVALID]


def _strategies(given: list[Json] | None) -> list[Json]:
    return [{**strategy, "opts": strategy.get("opts")} for strategy in given or ()]


def _page_faults(offset: int, limit: int) -> list[Fault]:
    return [] if offset >= 0 and 1 <= limit <= 100 else [INVALID]


def _page(found: list[Json], offset: int, limit: int) -> Json:
    return {"items": found[offset : offset + limit], "total": len(found), "offset": offset, "limit": limit}


def _conflict(noun: str, existing: str) -> Fault:
    return Fault(409, (("errorName", f"{noun}DeduplicationConflict"), (f"existing{noun}Id", existing)))


def _fits(text: Any, least: int, most: int) -> bool:
    return isinstance(text, str) and least <= len(text) <= most


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise Refused(*faults)

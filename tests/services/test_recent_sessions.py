"""Lists by newest activity, against a sort of all that was said: the two never differ, whatever the times between."""

import json
import random

import pytest

from threadkeep import clock
from threadkeep.domain.event import EventDraft
from threadkeep.domain.principal import Principal
from threadkeep.domain.session import SessionChange, SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.services.container import Container

SECOND = 1_000_000
SESSIONS = 30
ROUNDS = 6
# Within one step of `listed_at`, at its edge, beyond it; and no time at all, so that the ids decide.
STEPS = [0, 1, 1_000, SECOND // 3, SECOND - 1, SECOND, SECOND + 1, 10 * SECOND]


class Talk:
    """Sessions of a few people, a clock that is told, and what was last said when."""

    def __init__(self, container: Container, at: tuple[Principal, str], chance: random.Random) -> None:
        self.container = container
        self.at = at
        self.chance = chance
        self.now = 1_800_000_000 * SECOND
        self.active: dict[str, int] = {}
        self.people: dict[str, set[str]] = {}
        self.descriptions: dict[str, str] = {}
        self.archived: set[str] = set()
        self.last: dict[str, str] = {}

    async def begin(self) -> None:
        people = set(self.chance.sample(["ann", "bob", "eve"], self.chance.randint(1, 2)))
        description = self.chance.choice(["//thread/a/", "//thread/b/", "//other//thread/"])
        metadata = self.chance.choice([None, None, None, '{"archived": true}'])
        draft = SessionDraft(tuple(sorted(people)), description, metadata)
        made = await self.container.sessions.create(*self.at, draft)
        if metadata:
            self.archived.add(made.id)
        self.active[made.id], self.people[made.id], self.descriptions[made.id] = self.now, people, description

    async def say(self, session_id: str, type_: str) -> None:
        (event,) = await self.container.events.append(
            *self.at, session_id, [EventDraft("{}", None, type_, "agent", None)]
        )
        # A clock that was put back takes no session back.
        self.active[session_id] = max(self.active[session_id], self.now)
        if type_ == "message":
            self.last[session_id] = str(event.sequence_id)

    async def go_on(self) -> None:
        """Let time pass, and something happen."""
        self.now += self.chance.choice(STEPS)
        session_id = self.chance.choice(sorted(self.active))
        match self.chance.randrange(12):
            case 0:
                await self.begin()
            case 1:
                await self.container.sessions.delete(*self.at, session_id)
                del self.active[session_id]
            case 2:
                change = SessionChange(description=self.chance.choice(["//thread/c/", "//gone/"]))
                changed = await self.container.sessions.patch(*self.at, session_id, change)
                self.descriptions[session_id] = changed.description or ""
            case 5:
                self.archived ^= {session_id}
                change = SessionChange(metadata=json.dumps({"archived": session_id in self.archived}))
                await self.container.sessions.patch(*self.at, session_id, change)
            case 3:
                self.now -= 3 * SECOND
                await self.say(session_id, "message")
                self.now += 3 * SECOND
            case 4:
                for each in self.chance.sample(sorted(self.active), 8):
                    await self.say(each, "message")
            case _:
                await self.say(session_id, self.chance.choice(["message", "message", "status"]))

    def expected(
        self, participant: str, prefix: str, *, with_archived: bool = True
    ) -> list[tuple[str, int, str | None]]:
        mine = [
            (at, session_id)
            for session_id, at in self.active.items()
            if participant in self.people[session_id] and self.descriptions[session_id].startswith(prefix)
            if with_archived or session_id not in self.archived
        ]
        return [(session_id, at, self.last.get(session_id)) for at, session_id in sorted(mine, reverse=True)]

    async def listed(
        self, participant: str, prefix: str, limit: int, *, with_archived: bool = True
    ) -> list[tuple[str, int, str | None]]:
        """All pages, one after the other."""
        found: list[tuple[str, int, str | None]] = []
        cursor: str | None = None
        while True:
            page = await self.container.sessions.recent(
                *self.at,
                participant=participant,
                prefix=prefix,
                limit=limit,
                before=cursor,
                with_archived=with_archived,
            )
            found += [
                (item.session.id, item.updated_at, str(item.last_event.sequence_id) if item.last_event else None)
                for item in page.items
            ]
            assert len(page.items) == limit or page.next is None
            if page.next is None:
                return found
            cursor = page.next


@pytest.mark.parametrize("seed", range(4))
async def test_a_list_by_activity_is_a_sort_by_activity(
    container: Container, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await container.tokens.local_principal("alice")
    space = await container.spaces.create(alice, SpaceDraft())
    talk = Talk(container, (alice, space.id), random.Random(seed))
    monkeypatch.setattr(clock, "now", lambda: talk.now)
    for _ in range(SESSIONS):
        talk.now += talk.chance.choice([0, 0, 5, SECOND])
        await talk.begin()

    for _ in range(ROUNDS):
        for _ in range(25):
            await talk.go_on()
        for participant, prefix, limit in (("ann", "//thread/", 3), ("ann", "//thread/", 1), ("bob", "//", 7)):
            expected = talk.expected(participant, prefix)
            assert len(expected) > 3
            assert await talk.listed(participant, prefix, limit) == expected
            kept = talk.expected(participant, prefix, with_archived=False)
            assert 0 < len(kept) < len(expected)
            assert await talk.listed(participant, prefix, limit, with_archived=False) == kept

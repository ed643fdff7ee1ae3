"""What is measured on: a user with a space, sessions in it, and events of 1 KB."""

from threadkeep.domain.event import EventDraft
from threadkeep.domain.principal import Principal
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.services.container import Container

TEXT = "x" * 1000
BODY = f'{{"content":"{TEXT}"}}'


def draft() -> EventDraft:
    return EventDraft(BODY, TEXT, "message", "user", "ann")


async def make_sessions(container: Container, count: int) -> tuple[Principal, str, list[str]]:
    """A user, a space, and so many sessions in it."""
    principal = await container.tokens.local_principal("bench")
    space = await container.spaces.create(principal, SpaceDraft())
    made = [await container.sessions.create(principal, space.id, SessionDraft(("ann",))) for _ in range(count)]
    return principal, space.id, [session.id for session in made]

"""`threadkeep erase`, as an operator types it."""

import asyncio

from click.testing import CliRunner

from threadkeep.cli.app import threadkeep
from threadkeep.domain.event import EventDraft
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.services.container import Container
from threadkeep.settings import Settings


def fill(database: str) -> None:
    async def work() -> None:
        container = await Container.open(Settings(database=database))
        principal = await container.tokens.local_principal("operator")
        space = await container.spaces.create(principal, SpaceDraft())
        for people in (("bob",), ("bob", "ann")):
            session = await container.sessions.create(principal, space.id, SessionDraft(people))
            draft = EventDraft('{"content":"x"}', "x", "message", "user", "bob")
            await container.events.append(principal, space.id, session.id, [draft, draft])
        await container.close()

    asyncio.run(work())


def test_it_tells_what_there_is_asks_and_reports(database: str) -> None:
    fill(database)
    command = ("erase", "--database", database, "--participant", "bob")
    there_is = "Of bob there are: spaces: 0, sessions of their own: 1, sessions shared with others: 1.\n"

    refused = CliRunner().invoke(threadkeep, command, input="n\n")
    assert refused.exit_code == 1
    assert refused.stdout.startswith(there_is + "Remove them for good? [y/N]: n")

    agreed = CliRunner().invoke(threadkeep, command, input="y\n")
    assert agreed.exit_code == 0
    assert agreed.stdout.splitlines()[-1] == (
        "Removed bob: spaces: 0, sessions of their own: 1, sessions shared with others: 1, events: 4, memories: 0, "
        "tokens: 0."
    )

    again = CliRunner().invoke(threadkeep, (*command, "--yes"))
    assert (again.exit_code, again.stdout.splitlines()[-1]) == (0, "There was nothing of bob.")

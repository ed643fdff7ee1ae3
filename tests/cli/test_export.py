"""`threadkeep export` and `threadkeep import`, as an operator types them: a backup, and a restore from it."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from threadkeep.cli.app import threadkeep
from threadkeep.domain.event import EventDraft
from threadkeep.domain.session import SessionDraft
from threadkeep.domain.space import SpaceDraft
from threadkeep.services.container import Container
from threadkeep.services.sessions import Filters
from threadkeep.settings import Settings


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(threadkeep, [str(argument) for argument in arguments])


@pytest.fixture
def filled(database: str) -> str:
    fill(database)
    return database


def fill(database: str) -> None:
    async def work() -> None:
        container = await Container.open(Settings(database=database))
        principal = await container.tokens.local_principal("operator")
        space = await container.spaces.create(principal, SpaceDraft())
        for n in range(3):
            session = await container.sessions.create(principal, space.id, SessionDraft(("bob",), f"//thread/{n}/"))
            draft = EventDraft(f'{{"content":"{n}"}}', str(n), "message", "user", "bob")
            await container.events.append(principal, space.id, session.id, [draft, draft])
        await container.close()

    asyncio.run(work())


def test_a_backup_is_restored_into_an_empty_database(filled: str, tmp_path: Path) -> None:
    backup, again = tmp_path / "backup.jsonl", tmp_path / "again.jsonl"
    restored = f"sqlite:///{tmp_path}/restored.db"

    assert run("export", "--database", filled, "--all", "--output", backup).exit_code == 0
    taken = run("import", "--database", restored, "--input", backup)
    assert taken.stdout == "Sessions: 3, events: 6, sessions that were there already: 0, memories: 0\n"
    assert run("import", "--database", restored, "--input", backup).stdout == (
        "Sessions: 0, events: 0, sessions that were there already: 3, memories: 0\n"
    )
    assert run("export", "--database", restored, "--all", "--output", again).exit_code == 0
    assert again.read_text() == backup.read_text()
    assert run("export", "--database", restored, "--all").stdout == backup.read_text()


def test_a_copy_by_vacuum_holds_the_same_and_is_searched(tmp_path: Path, sqlite_template: Path) -> None:
    path, copy = tmp_path / "threadkeep.db", tmp_path / "copy.db"
    path.write_bytes(sqlite_template.read_bytes())
    fill(f"sqlite:///{path}")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        # Row numbers are given out anew: were the search to go by them, it would find other sessions.
        connection.execute("DELETE FROM sessions WHERE description = '//thread/0/'")
        connection.commit()
        connection.execute(f"VACUUM INTO '{copy}'")

    async def found() -> list[str | None]:
        container = await Container.open(Settings(database=f"sqlite:///{copy}"))
        principal = await container.tokens.local_principal("operator")
        (space,), _ = await container.spaces.page(principal)
        sessions, _ = await container.sessions.page(principal, space.id, Filters(needle="//thread/2/"))
        await container.close()
        return [session.description for session in sessions]

    assert asyncio.run(found()) == ["//thread/2/"]
    exports = [run("export", "--database", f"sqlite:///{each}", "--all").stdout for each in (path, copy)]
    assert exports[0] == exports[1]
    assert exports[0].count('"end"') == 2


def test_an_export_that_was_stopped_goes_on(filled: str, tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole.jsonl", tmp_path / "stopped.jsonl"
    run("export", "--database", filled, "--all", "--output", whole)
    text = whole.read_text()
    second_event = text.index('{"event"', text.index('{"end"'))
    stopped.write_text(text[: second_event + 30])

    assert run("export", "--database", filled, "--all", "--output", stopped, "--resume").exit_code == 0
    assert stopped.read_text() == text
    again = run("export", "--database", filled, "--all", "--output", stopped, "--resume")
    assert "is whole: there is nothing to go on with" in again.stderr


def test_what_is_typed_wrong_is_told(filled: str, tmp_path: Path) -> None:
    there = tmp_path / "there.jsonl"
    there.write_bytes(b"\xff\xfe")

    assert "Give --space ID or --all" in run("export", "--database", filled).stderr
    assert "is there already" in run("export", "--database", filled, "--all", "--output", there).stderr
    assert "--resume goes on with the file" in run("export", "--database", filled, "--all", "--resume").stderr
    assert "no memory space 'x'" in run("export", "--database", filled, "--space", "x").stderr
    somebody_elses = tmp_path / "notes.txt"
    somebody_elses.write_text("do not lose this")
    resumed = run("export", "--database", filled, "--all", "--output", somebody_elses, "--resume")
    assert (resumed.exit_code, "no export that is known here" in resumed.stderr) == (1, True)
    assert somebody_elses.read_text() == "do not lose this"
    foreign = run("import", "--database", filled, "--input", there)
    assert (foreign.exit_code, "UTF-8" in foreign.stderr) == (1, True)

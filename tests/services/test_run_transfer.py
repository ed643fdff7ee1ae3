"""The logs of runs and what runs have asked go along from one database to another, byte for byte."""

import base64
import json
import random
import shutil
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.passing_time import seconds_from_now, work_at
from tests.services.run_stage import At, a_session, begun, numbered, whole
from threadkeep.domain.interrupt import InterruptDraft
from threadkeep.errors import Invalid
from threadkeep.services import run_transfer
from threadkeep.services.container import Container
from threadkeep.settings import Settings

ODD_ID = "odd \0 \ud800: id"
EVENTS = [b"a\n\xff\0", b"", b'{"delta":"\\ud800"}', *[b"again and again"] * 300]


@pytest.fixture
async def other(tmp_path: Path, sqlite_template: Path) -> AsyncIterator[Container]:
    """A second, empty database: SQLite, so that with the first one all ways over are taken."""
    path = tmp_path / "other.db"
    shutil.copy(sqlite_template, path)
    opened = await Container.open(Settings(database=f"sqlite:///{path}"))
    try:
        yield opened
    finally:
        await opened.close()


async def filled(container: Container) -> At:
    """A session with a run that has a log and an interrupt, one with neither, and one that goes on."""
    at = await a_session(container)
    run = await container.runs.begin(
        *at, run_id=ODD_ID, parent_run_id=None, owner="o", lease_seconds=60, input='{"x":1.50}'
    )
    await container.run_log.append(run, 0, EVENTS[:2])
    asked = [InterruptDraft(f"i{ODD_ID}", '{"id":"i","n":1.50}', 7), InterruptDraft("j", "{}")]
    await container.runs.finish(run, status="finished", events=EVENTS[2:], first=2, interrupts=asked)
    await container.runs.finish(await begun(container, at, "silent"), status="errored")
    going = await begun(container, at, "going")
    await container.run_log.append(going, 0, [b"not yet"])
    return at


async def exported(container: Container) -> list[str]:
    return [line async for line in container.transfer.export(None, None)]


@pytest.mark.parametrize("into_it", [False, True])
@pytest.mark.parametrize("compacted", [False, True])
async def test_a_log_is_the_same_on_the_other_side(
    container: Container, other: Container, into_it: bool, compacted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_transfer, "READ_BYTES", 2_000)
    monkeypatch.setattr(run_transfer, "_STEP_BYTES", 100)
    source, target = (other, container) if into_it else (container, other)
    at = await filled(source)
    if compacted:
        await work_at(source, seconds_from_now(70))
    lines = await exported(source)

    await target.transfer.bring(lines)
    await target.transfer.bring(lines)

    assert await exported(target) == lines
    run = await target.runs.get(*at, ODD_ID)
    assert run.input == '{"x":1.50}'
    assert await whole(target, run.key) == numbered(EVENTS)
    assert {run.run_id: run.status for run in await target.runs.page(*at)} == {ODD_ID: "finished", "silent": "errored"}
    await work_at(target, seconds_from_now(200))
    assert await whole(target, run.key) == numbered(EVENTS)


async def test_what_an_import_that_was_stopped_has_left_is_not_in_the_way(
    container: Container, other: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_transfer, "READ_BYTES", 2_000)
    monkeypatch.setattr(run_transfer, "_STEP_BYTES", 10)
    at = await filled(other)
    lines = await exported(other)
    half = next(n for n, line in enumerate(lines) if line.startswith('{"interrupt"'))
    with pytest.raises(Invalid, match="cut off"):
        await container.transfer.bring(lines[:half])

    await container.transfer.bring(lines)

    assert await whole(container, (await container.runs.get(*at, ODD_ID)).key) == numbered(EVENTS)


def changed(kind: str, **fields: Any) -> Callable[[list[str]], list[str]]:
    """The lines with other fields in the first one of a kind."""

    def change(lines: list[str]) -> list[str]:
        place = next(n for n, line in enumerate(lines) if line.startswith(f'{{"{kind}"'))
        line = json.loads(lines[place])
        line[kind] |= fields
        return [*lines[:place], json.dumps(line) + "\n", *lines[place + 1 :]]

    return change


def doubled(kind: str) -> Callable[[list[str]], list[str]]:
    def change(lines: list[str]) -> list[str]:
        place = next(n for n, line in enumerate(lines) if line.startswith(f'{{"{kind}"'))
        return [*lines[:place], lines[place], *lines[place:]]

    return change


BOMB = base64.b64encode(zlib.compress(b"\0" * 10_000_000)).decode()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (changed("run_events", run_id="x"), "events of a run that is not there"),
        (changed("run_events", first_index=1), "the events from 1 on of a run; those from 0 on are missing"),
        (doubled("run_events"), "the events from 0 on of a run; those from 303 on are missing"),
        (changed("run_events", count=302), "cannot be read"),
        (changed("run_events", count=0), "0 events of"),
        (changed("run_events", size=10**9), "events of 1000000000 bytes in a line"),
        (changed("run_events", size=3), "is not of 3 bytes"),
        (changed("run_events", payload=BOMB), "cannot be read: a group of events is not of"),
        (changed("run_events", payload="é"), "cannot be read"),
        (changed("run_events", payload="AAAA"), "cannot be inflated"),
        (changed("run_events", form=2), "the form 2; 0 and 1 are known"),
        (changed("run_events", payload=7), "'payload' of run_events is not a text"),
        (doubled("run"), "a second run with the run_id"),
        (doubled("interrupt"), "an interrupt that is there already"),
        (changed("interrupt", run_id="x"), "of a run that is not there"),
    ],
)
async def test_a_line_that_is_wrong_is_refused(
    other: Container, tmp_path: Path, change: Callable[[list[str]], list[str]], problem: str
) -> None:
    await filled(other)
    lines = change(await exported(other))
    empty = await Container.open(Settings(database=f"sqlite:///{tmp_path}/empty.db"))
    try:
        with pytest.raises(Invalid, match=problem):
            await empty.transfer.bring(lines)
    finally:
        await empty.close()


async def test_events_of_any_kind_travel_in_lines_that_are_not_much_larger(other: Container) -> None:
    at = await a_session(other)
    noise = random.Random(1).randbytes(100_000)
    await other.runs.finish(await begun(other, at), status="finished", events=[noise], first=0)

    (line,) = [line for line in await exported(other) if line.startswith('{"run_events"')]

    assert len(line) < 134_000

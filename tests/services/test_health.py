"""Readiness asks the database and compares its schema."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from threadkeep.errors import Unavailable
from threadkeep.services import health
from threadkeep.services.container import Container
from threadkeep.services.health import Health
from threadkeep.storage.migrate import newest_revision


class Hanging:
    """A database that never answers."""

    dialect = "sqlite"

    async def read(self, operation: Callable[[], Any]) -> Any:
        await asyncio.Event().wait()


class Answering(Hanging):
    """A database that says one thing."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def read(self, operation: Callable[[], Any]) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


async def test_the_revision_of_the_schema_is_told(container: Container) -> None:
    assert await container.health.check() == newest_revision()


async def test_a_database_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_PATIENCE_SECONDS", 0)

    with pytest.raises(Unavailable, match="The database gives no answer"):
        await Health(Hanging()).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, r"has the schema None; this version of Threadkeep needs '\d{4}_"),
        ("2020_01_01_older", "has the schema '2020_01_01_older'; this version"),
        (Unavailable("The database cannot be reached: 10.0.0.7"), r"^The database gives no answer$"),
        (ZeroDivisionError("what somebody said"), r"^The database gives no answer$"),
    ],
)
async def test_the_reason_names_no_address_and_quotes_no_foreign_error(
    answer: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Unavailable, match=reason):
        await Health(Answering(answer)).check()  # type: ignore[arg-type]

    assert "what somebody said" not in caplog.text


async def test_a_process_that_is_going_to_stop_is_not_ready(container: Container) -> None:
    container.health.stop()

    with pytest.raises(Unavailable, match="The server is stopping"):
        await container.health.check()

"""Cancels that cross processes: a wish in the database, a wake-up for the run's owner, and the wait for the end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from threadkeep.domain import run as states
from threadkeep.domain.principal import Principal
from threadkeep.domain.run import Run, RunKey
from threadkeep.errors import Unavailable
from threadkeep.services.container import Container
from threadkeep.services.run_log import topic_of
from threadkeep.streams.bus import owner_topic

LOOK_SECONDS = 1.0
"""How long either side waits for a wake-up before it looks by itself."""
PATIENCE_SECONDS = 30.0
"""How long the end of a run is waited for after it was asked for; its owner's lease is shorter."""

_log = logging.getLogger("threadkeep.gateway")


async def obey(
    container: Container, owner: str, is_needed: Callable[[], bool], stop: Callable[[RunKey], Awaitable[object]]
) -> None:
    """Stop the runs of `owner`, which is this process, that somebody wants to end. Never returns."""
    async with container.bus.listen(owner_topic(owner)) as news:
        while True:
            await news.wait(LOOK_SECONDS)
            try:
                if is_needed():
                    for key in await container.runs.cancels_wanted(owner):
                        await stop(key)
            except Unavailable as error:
                _log.warning("whether runs are to be cancelled cannot be told: %s", error)
            except Exception:
                _log.exception("runs could not be cancelled")


async def ask(
    container: Container, principal: Principal, key: RunKey, recover: Callable[[], Awaitable[object]]
) -> bool:
    """Have a run of another process end, and wait until it has. Returns False where it has ended by itself.

    `recover` ends it where its process is gone. Raises NotFound (the session), Unavailable.
    """
    place = (principal, key.space_id, key.session_id, key.run_id)
    async with container.bus.listen(topic_of(key)) as news:
        if not await container.runs.want_cancel(*place):
            return False
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (run := await container.runs.get(*place)).is_open:
                    await news.wait(LOOK_SECONDS)
                    await recover()
        except TimeoutError:
            raise Unavailable(
                f"The process that has the run {key.run_id!r} does not answer; the run ends when it does"
            ) from None
    return was_cancelled(run)


def was_cancelled(run: Run) -> bool:
    """Whether a run that has ended was cut short."""
    return run.status == states.INTERRUPTED

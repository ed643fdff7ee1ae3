"""Following a run through outages of the store: a reader goes on where it was, when the store is back."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from threadkeep.domain.run import RunKey
from threadkeep.errors import Unavailable
from threadkeep.services.run_log import RunLog
from threadkeep.streams.run_log import LoggedEvent

_FIRST_RETRY, _LONGEST_RETRY = 0.1, 5.0

_log = logging.getLogger("threadkeep.services")


async def pages_through(log: RunLog, key: RunKey, after: int = -1) -> AsyncGenerator[list[LoggedEvent], None]:
    """The events behind an index, as they come, to the end of the run. A store that gives no answer is waited for."""
    delay = _FIRST_RETRY
    while True:
        try:
            async with aclosing(log.pages(key, after)) as pages:
                async for page in pages:
                    yield page
                    after, delay = page[-1].index, _FIRST_RETRY
            return
        except Unavailable as error:
            _log.warning("a run cannot be followed, next attempt in %.1f s run=%s: %s", delay, key.run_id, error)
        await asyncio.sleep(delay)
        delay = min(2 * delay, _LONGEST_RETRY)

"""`make bench`: all of it, or the parts that are named."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from bench import appends, costs, extraction, loops, memories, reads, runs, scale, streams
from bench.databases import ENGINES
from threadkeep.cli.serving import tune_interpreter
from threadkeep.storage.appends import compile_for

PARTS: dict[str, Callable[[str], Coroutine[Any, Any, None]]] = {
    "appends": appends.through_services,
    "http": appends.over_http,
    "growth": appends.growth,
    "reads": reads.history,
    "chats": reads.chats,
    "stream": streams.storage_agent,
    "run-costs": costs.of_a_run,
    "long-chat": costs.of_a_write,
    "added": runs.latency,
    "thousand": runs.thousand,
    "resume": runs.resume,
    "loops": loops.loops,
    "search": scale.search,
    "long": scale.long_session,
    "extraction": extraction.requests,
    "memories": memories.search,
    "servers": appends.many_servers,
}


def main() -> None:
    names = sys.argv[1:] or list(PARTS)
    for name in names:
        if name not in PARTS:
            sys.exit(f"There is no benchmark {name!r}; there are: {', '.join(PARTS)}")
    # As `threadkeep serve` does.
    tune_interpreter()
    for engine in ENGINES:
        compile_for(engine)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for name in names:
            for engine in ENGINES:
                runner.run(PARTS[name](engine))


main()

"""Runs through the gateway: what it adds to each event, a thousand at once, and readers that resume."""

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import report
from bench.appends import free_port, wait_for
from bench.databases import ENGINES
from bench.run_load import Script, opened, pieces, run_body, upstream
from bench.run_server import PLAIN
from threadkeep import clock
from threadkeep.services.container import Container
from threadkeep.settings import Settings
from threadkeep.workers.runner import runner_of

EVENTS = 200
PAUSE = 0.02
"""Seconds between two events of a run: as fast as models speak."""
ROUNDS = 4
AT_ONCE = 20
OPEN = 1_000
LONG = 10_000
READS = 20
_GATEWAY = "/agui/"
_HOUR = 3600 * 1_000_000


async def latency(engine: str) -> None:
    """From the upstream's hand to the client's, through the gateway and through a plain proxy, turn by turn."""
    for at_once in (1, AT_ONCE):
        report.title(f"From an upstream's event to the client's, {at_once} at once, every {PAUSE * 1e3:g} ms: {engine}")
        script = Script(EVENTS, PAUSE)
        script.go_on.set()
        taken: dict[str, list[float]] = {PLAIN: [], _GATEWAY: []}
        with ENGINES[engine]() as url:
            async with upstream(script) as agent:
                with _gateway(url, agent) as server:
                    for round_ in range(ROUNDS):
                        for path, delays in taken.items():
                            runs = [f"{path.strip('/')}-{at_once}-{round_}-{n}" for n in range(at_once)]
                            of_each = [_delays(server.port, path, run, script) for run in runs]
                            for some in await asyncio.gather(*of_each):
                                # The first round warms up.
                                delays += some if round_ else []
        plain, gateway = statistics.median(taken[PLAIN]), statistics.median(taken[_GATEWAY])
        report.line("plain proxy: median, p99", _times(taken[PLAIN]))
        report.line("gateway: median, p99", _times(taken[_GATEWAY]))
        report.ratio("added at the median: ms", (gateway - plain) * 1e3, at_most=1)


async def thousand(engine: str) -> None:
    report.title(f"{OPEN:,} runs open at once in one process: {engine}")
    _allow_open_files()
    script = Script(10)
    with ENGINES[engine]() as url:
        async with upstream(script) as agent:
            with _gateway(url, agent) as server:
                warm = asyncio.create_task(_whole(server.port, "warm", asyncio.Semaphore(), asyncio.Semaphore(0)))
                await asyncio.sleep(1)
                before = server.memory()
                started = time.perf_counter()
                going, shown = asyncio.Semaphore(50), asyncio.Semaphore(0)
                runs = [asyncio.create_task(_whole(server.port, f"r{n}", going, shown)) for n in range(OPEN)]
                for _ in runs:
                    await shown.acquire()
                opened_in, held = time.perf_counter() - started, server.memory() - before
                started = time.perf_counter()
                script.go_on.set()
                ends = await asyncio.gather(*runs)
                ended_in = time.perf_counter() - started
                await warm
    report.line("until each client has seen its tenth event", f"{opened_in:10.1f} s")
    report.line("memory", f"{held / OPEN / 1024:10.1f} KiB a run")
    report.line("from the last word to all ends", f"{ended_in:10.1f} s")
    report.ratio("runs whose client saw the end", sum(ends) / OPEN, at_least=1)


async def resume(engine: str) -> None:
    report.title(f"A reader of {LONG:,} events, from 0 and from {LONG * 9 // 10:,}: {engine}")
    script = Script(LONG)
    script.go_on.set()
    with ENGINES[engine]() as url:
        async with upstream(script) as agent:
            with _gateway(url, agent) as server:
                body = run_body("long")
                async with opened(server.port, "POST", _GATEWAY, body) as reader, aclosing(pieces(reader)) as every:
                    async for _ in every:
                        pass
                await _tell_reads(server.port, "as it was written")
                container = await Container.open(Settings(database=url))
                await runner_of(container).run_due(clock.now() + _HOUR)
                await container.close()
                await _tell_reads(server.port, "compacted")


@dataclass(frozen=True)
class _Server:
    port: int
    pid: int

    def memory(self) -> int:
        """Bytes that the process holds."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def _gateway(database: str, agent: str) -> Iterator[_Server]:
    """A server in a process of its own."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "bench.run_server", database, str(port), agent])
    try:
        wait_for(port)
        yield _Server(port, process.pid)
    finally:
        process.terminate()
        process.wait()


def _allow_open_files() -> None:
    """Two connections a run, on each side; the server's process inherits it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _tell_reads(port: int, how: str) -> None:
    path = f"{_GATEWAY}threads/t-long/runs/long/events/"
    late = f"{path}?after=long:{LONG * 9 // 10 - 1}"
    whole, rest = await _reads(port, path), await _reads(port, late)
    report.line(f"{how}: first event, from 0 and late", f"{whole[0] * 1e3:10.2f} ms {rest[0] * 1e3:10.2f} ms")
    report.line(f"{how}: all, from 0 and late", f"{whole[1] * 1e3:10.2f} ms {rest[1] * 1e3:10.2f} ms")
    report.ratio(f"{how}: first event, late / from 0", rest[0] / whole[0], at_most=1.5)
    report.ratio(f"{how}: all, late / from 0", rest[1] / whole[1], at_most=0.3)


async def _reads(port: int, path: str) -> tuple[float, float]:
    """Seconds to the first event and to the end, at the median."""
    firsts, wholes = [], []
    for _ in range(READS):
        started = time.perf_counter()
        async with opened(port, "GET", path) as reader, aclosing(pieces(reader)) as every:
            times = [at async for _, at in every]
        firsts.append(times[0] - started)
        wholes.append(time.perf_counter() - started)
    return statistics.median(firsts), statistics.median(wholes)


async def _delays(port: int, path: str, run: str, script: Script) -> list[float]:
    came: list[tuple[int, float]] = []
    async with opened(port, "POST", path, run_body(run)) as reader, aclosing(pieces(reader)) as every:
        came += [piece async for piece in every]
    assert len(came) == EVENTS
    return [at - script.sent[run][number] for number, at in came]


async def _whole(port: int, run: str, going: asyncio.Semaphore, shown: asyncio.Semaphore) -> bool:
    """Follow a run to its end. Returns whether it was told."""
    rest = b""
    async with going:
        async with asyncio.timeout(120):
            stream = opened(port, "POST", _GATEWAY, run_body(run))
            reader = await stream.__aenter__()
            while b'"delta":"9 "' not in rest:
                rest += await reader.readuntil(b"\n")
        shown.release()
    try:
        return b'"RUN_FINISHED"' in rest + await reader.read(-1)
    finally:
        await stream.__aexit__(None, None, None)


def _times(taken: list[float]) -> str:
    cuts = statistics.quantiles(taken, n=100)
    return f"{cuts[49] * 1e3:10.3f} ms {cuts[98] * 1e3:10.3f} ms"

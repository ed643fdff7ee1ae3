"""Closed-loop load: so many tasks, each waiting for its answer before it asks again."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Once = Callable[[int], Awaitable[object]]


@dataclass(frozen=True)
class Measured:
    """Operations a second, and milliseconds at two percentiles."""

    rate: float
    p50: float
    p99: float

    def __str__(self) -> str:
        return f"{self.rate:>10,.0f}/s   p50 {self.p50:8.3f} ms   p99 {self.p99:8.3f} ms"


def measured(taken: list[float], seconds: float) -> Measured:
    cuts = statistics.quantiles(taken, n=100)
    return Measured(len(taken) / seconds, cuts[49] * 1000, cuts[98] * 1000)


async def drive(once: Once, *, tasks: int, each: int) -> Measured:
    """Run `tasks` tasks that call `once(task)` `each` times."""
    taken: list[float] = []

    async def one(number: int) -> None:
        for _ in range(each):
            started = time.perf_counter()
            await once(number)
            taken.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*map(one, range(tasks)))
    return measured(taken, time.perf_counter() - started)


async def side_by_side(rounds: int, *ways: Callable[[], Awaitable[Measured]]) -> list[Measured]:
    """Measure all ways in turn, so that a drift of the machine meets them alike; of each, the round of middle rate."""
    results: list[list[Measured]] = [[] for _ in ways]
    for _ in range(rounds):
        for result, way in zip(results, ways, strict=True):
            result.append(await way())
    return [sorted(result, key=lambda each: each.rate)[rounds // 2] for result in results]

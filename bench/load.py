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
        return f"{self.rate:>9,.0f}/s  p50 {self.p50:7.2f} ms  p99 {self.p99:7.2f} ms"


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
    rate = tasks * each / (time.perf_counter() - started)
    cuts = statistics.quantiles(taken, n=100)
    return Measured(rate, cuts[49] * 1000, cuts[98] * 1000)


async def median_of(rounds: int, measure: Callable[[], Awaitable[Measured]]) -> Measured:
    """The round of middle rate."""
    measured = sorted([await measure() for _ in range(rounds)], key=lambda each: each.rate)
    return measured[len(measured) // 2]

"""What is counted, for Prometheus. Labels come from what the code knows, never from what a caller sends.

Where several processes serve one socket, `prometheus_client` keeps its numbers in files of the folder that
PROMETHEUS_MULTIPROC_DIR names, and whichever process is asked tells the sums of all.
"""

import os
import time
from collections.abc import Callable

from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    exposition,
    multiprocess,
)

MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
METHODS = frozenset(("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"))
NO_ROUTE = "none"
"""The route of a request that no route fits."""

_REQUESTS = Counter(
    "threadkeep_http_requests", "Requests that were answered, by route and status.", ("method", "route", "status")
)
_SECONDS = Histogram(
    "threadkeep_http_request_seconds",
    "Seconds from a request to the end of its answer; of a stream, to its end.",
    ("method", "route"),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
requests_in_flight = Gauge(
    "threadkeep_http_requests_in_flight", "Requests that are being answered.", multiprocess_mode="livesum"
)
events_appended = Counter("threadkeep_events_appended", "Events that were appended.")
append_group = Histogram(
    "threadkeep_append_group_size",
    "Requests to append that were written in one transaction.",
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
)
_STARTED = Gauge(
    "threadkeep_worker_start_time_seconds",
    "When a process that serves began to, in seconds since 1970.",
    # With a label, so that a process is not in the sum before it serves.
    ("version",),
    multiprocess_mode="liveall",
)

Tell = Callable[[int, float], None]


def is_shared() -> bool:
    """Whether the numbers of this process are added to those of others."""
    return MULTIPROCESS_FOLDER in os.environ


def started(version: str) -> None:
    """Note that this process serves from now on."""
    _STARTED.labels(version).set(time.time())


def teller(method: str, route: str) -> Tell:
    """How to count the requests of a method on a route: called with the status and the seconds of each."""
    seconds = _SECONDS.labels(method, route)
    by_status: dict[int, Counter] = {}

    def tell(status: int, taken: float) -> None:
        counter = by_status.get(status)
        if counter is None:
            counter = by_status[status] = _REQUESTS.labels(method, route, str(status))
        counter.inc()
        seconds.observe(taken)

    return tell


def exposed(accept: str) -> tuple[bytes, str]:
    """All numbers in the format that the `Accept` header asks for, and its media type. May read files."""
    registry = REGISTRY
    if is_shared():
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    encode, media_type = exposition.choose_encoder(accept)
    return encode(registry), media_type


def forget_process(pid: int, folder: str) -> None:
    """Leave out what a process that has ended was doing; what it had counted stays in the sums."""
    multiprocess.mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]

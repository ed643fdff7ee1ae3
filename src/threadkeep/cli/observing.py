"""What a command tells its operator while it runs: the log, the access log, traces."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from threadkeep import __version__
from threadkeep.errors import MissingExtra
from threadkeep.settings import Settings
from threadkeep.telemetry import logs
from threadkeep.telemetry.access_log import AccessLog

if TYPE_CHECKING:
    from threadkeep.telemetry.tracing import Tracing

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class Observers(NamedTuple):
    """Whom requests are told to."""

    access_log: AccessLog | None
    tracing: "Tracing | None"


@contextmanager
def observed(settings: Settings) -> Iterator[Observers]:
    """Begin to log, and to trace where that is asked for; at the end, what waits is written and sent.

    Raises MissingExtra.
    """
    with ExitStack() as stack:
        stack.enter_context(logs.configured(level=settings.log_level, form=settings.log_format))
        tracing = _tracing(settings.otel_endpoint)
        if tracing is not None:
            stack.callback(tracing.close)
        access_log = AccessLog(settings.log_format) if settings.access_log else None
        if access_log is not None:
            stack.callback(access_log.flush)
        yield Observers(access_log, tracing)


def _tracing(endpoint: str | None) -> "Tracing | None":
    variables = os.environ
    is_off = variables.get("OTEL_SDK_DISABLED", "").lower() == "true" or variables.get("OTEL_TRACES_EXPORTER") == "none"
    if is_off or not (endpoint or any(variables.get(name) for name in _ENDPOINTS)):
        return None
    try:
        from threadkeep.telemetry import tracing

        return tracing.export(endpoint, __version__)
    except ModuleNotFoundError as error:
        raise MissingExtra("otel", "Tracing") from error

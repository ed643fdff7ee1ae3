"""Traces are on where a collector is named, go to it by OTLP/HTTP, and name the extra that they need."""

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from threadkeep import __version__, telemetry
from threadkeep.cli.observing import observed
from threadkeep.errors import MissingExtra
from threadkeep.settings import Settings


class Collector:
    """What takes spans; it keeps the path and the body of each request."""

    def __init__(self) -> None:
        taken = self.taken = list[tuple[str, bytes]]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                taken.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def collector() -> Iterator[Collector]:
    opened = Collector()
    with opened.server as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield opened
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SERVICE_NAME"):
        monkeypatch.delenv(name, raising=False)


def trace_one(settings: Settings) -> bool:
    """Whether a request was traced."""
    with observed(settings) as observers:
        if observers.tracing is None:
            return False
        with observers.tracing.request("GET", "http", []) as span:
            span.end("/api/v2/memory/", 200, "r-1", None)
    return True


@pytest.mark.parametrize("how", ["setting", "variable"])
def test_spans_go_to_the_collector_that_is_named_before_the_process_ends(
    how: str, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "variable":
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    assert trace_one(Settings(otel_endpoint=collector.url if how == "setting" else None))

    ((path, body),) = collector.taken
    assert path == "/v1/traces"
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    named = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
    assert (named["service.name"], named["service.version"]) == ("threadkeep", __version__)
    (span,) = resource.scope_spans[0].spans
    assert span.name == "GET /api/v2/memory/"


@pytest.mark.parametrize(
    ("variable", "value"), [(None, ""), ("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")]
)
def test_nothing_is_traced_where_no_collector_is_named_or_tracing_is_off(
    variable: str | None, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
        monkeypatch.setenv(variable, value)
    assert not trace_one(Settings())


@pytest.mark.parametrize(
    "missing", ["opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"]
)
def test_the_extra_that_is_missing_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "threadkeep.telemetry.tracing", raising=False)
    monkeypatch.delattr(telemetry, "tracing", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(MissingExtra, match=r"Tracing needs .* pip install 'threadkeep\[otel\]'"):
        trace_one(Settings(otel_endpoint="http://127.0.0.1:1"))


def test_no_access_log_where_none_is_asked_for() -> None:
    with observed(Settings(access_log=False)) as without, observed(Settings()) as usual:
        assert without.access_log is None
        assert usual.access_log is not None

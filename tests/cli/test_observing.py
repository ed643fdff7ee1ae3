"""What a command tells, and where: decided by settings and by OpenTelemetry's own variables."""

import http.server
import json
import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from threadkeep import telemetry
from threadkeep.cli.observing import observed
from threadkeep.errors import MissingExtra
from threadkeep.settings import Settings

NAMES = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_SDK_DISABLED",
    "OTEL_TRACES_EXPORTER",
)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """An OTLP collector, and what it was sent."""
    received: list[tuple[str, bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    thread.join()
    server.server_close()


def test_without_an_endpoint_nothing_is_traced() -> None:
    with observed(Settings()) as observers:
        assert observers.tracing is None
        assert observers.access_log is not None


def test_the_access_log_can_be_left_out() -> None:
    with observed(Settings(access_log=False)) as observers:
        assert observers.access_log is None


@pytest.mark.parametrize("by_variable", [False, True])
def test_spans_are_sent_to_the_collector_that_is_named(
    collector: tuple[str, list[tuple[str, bytes]]], by_variable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, received = collector
    if by_variable:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)

    with observed(Settings(otel_endpoint=None if by_variable else f"{endpoint}/")) as observers:
        assert observers.tracing is not None
        with observers.tracing.request("GET", "http", []) as span:
            span.end("/a/route/", 200, "r-1", None)
        assert received == [], "spans go out in batches, and not on the way of a request"

    ((path, body),) = received
    assert path == "/v1/traces"
    assert b"GET /a/route/" in body
    assert b"threadkeep" in body


@pytest.mark.parametrize(("name", "value"), [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")])
def test_opentelemetrys_own_switches_hold(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with observed(Settings(otel_endpoint="http://127.0.0.1:1")) as observers:
        assert observers.tracing is None


@pytest.mark.parametrize("missing", ["sdk.resources", "exporter.otlp.proto.http.trace_exporter"])
def test_tracing_without_its_extra_names_the_line_that_installs_it(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "threadkeep.telemetry.tracing", raising=False)
    monkeypatch.delattr(telemetry, "tracing", raising=False)
    monkeypatch.setitem(sys.modules, f"opentelemetry.{missing}", None)

    with (
        pytest.raises(MissingExtra, match=r"pip install 'threadkeep\[otel\]'"),
        observed(Settings(otel_endpoint="http://127.0.0.1:1")),
    ):
        pass


def test_lines_go_to_standard_error_as_the_settings_say(capsys: pytest.CaptureFixture[str]) -> None:
    with observed(Settings(log_format="json")):
        logging.getLogger("threadkeep.x").info("first")
    with observed(Settings(log_format="text", log_level="warning")):
        logging.getLogger("threadkeep.x").info("left out")
        logging.getLogger("threadkeep.x").warning("second")

    first, second = capsys.readouterr().err.splitlines()
    assert json.loads(first)["message"] == "first"
    assert second.endswith("warning threadkeep.x second")

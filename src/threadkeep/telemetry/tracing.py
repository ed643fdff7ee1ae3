"""Traces by OpenTelemetry: a span for each request, and one for each visit to the database under it.

Needs the extra `otel`; imported only where traces are asked for. Spans say what the access log says, and no more.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from threadkeep.telemetry.metrics import NO_ROUTE

_PROPAGATOR = TraceContextTextMapPropagator()
_CARRIED = (b"traceparent", b"tracestate")


class Tracing:
    """Makes the spans, and hands them to the provider's exporters."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("threadkeep")

    @contextmanager
    def request(self, method: str, scheme: str, headers: Iterable[tuple[bytes, bytes]]) -> Iterator["RequestSpan"]:
        """A span for a request, in the trace that a W3C `traceparent` among its headers names, else in a new one."""
        carrier = {name.decode(): value.decode("latin-1") for name, value in headers if name in _CARRIED}
        with self._tracer.start_as_current_span(
            method,
            _PROPAGATOR.extract(carrier),
            SpanKind.SERVER,
            {"http.request.method": method, "url.scheme": scheme},
            # The text of an error may hold what somebody said.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield RequestSpan(span, method)

    @contextmanager
    def database(self, verb: str, system: str) -> Iterator[None]:
        """A span for a visit to the database."""
        with self._tracer.start_as_current_span(
            f"{verb} {system}",
            kind=SpanKind.CLIENT,
            attributes={"db.system.name": system, "db.operation.name": verb},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise

    def close(self) -> None:
        """Send what waits, within the exporter's timeout."""
        self._provider.shutdown()


class RequestSpan:
    """The span of a request whose end is not known yet."""

    def __init__(self, span: Span, method: str) -> None:
        self._span = span
        self._method = method

    def end(self, route: str, status: int, request_id: str, token_id: str | None) -> None:
        """Say how the request was answered; `status` is 0 where nothing was said."""
        attributes: dict[str, Any] = {"threadkeep.request_id": request_id}
        if route != NO_ROUTE:
            self._span.update_name(f"{self._method} {route}")
            attributes["http.route"] = route
        if status:
            attributes["http.response.status_code"] = status
        if token_id is not None:
            attributes["threadkeep.token_id"] = token_id
        if status >= 500:
            attributes["error.type"] = str(status)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.set_attributes(attributes)


def export(endpoint: str | None, version: str) -> Tracing:
    """Send spans in batches over OTLP/HTTP: to the collector at `endpoint`, such as `http://127.0.0.1:4318`.

    Without an endpoint, OpenTelemetry's own variables say where to; in either case they say what to sample.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    named = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: "threadkeep"}
    provider = TracerProvider(resource=Resource.create({**named, SERVICE_VERSION: version}))
    exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces") if endpoint else OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider)

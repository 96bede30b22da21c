"""OpenTelemetry spans and Prometheus metrics for gRPC calls. Needs the `telemetry` extra.

Spans go to the tracer provider of this process, such as the one that `opentelemetry-instrument` sets up, and continue
the caller's trace. No span or metric contains any part of a query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onhand.errors import InputError, MissingExtra

try:
    from opentelemetry import context, propagate, trace
    from prometheus_client import REGISTRY, Counter, Gauge, Histogram, start_http_server
except ModuleNotFoundError as error:
    raise MissingExtra("spans and metrics", "telemetry") from error

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from onhand.grpc.calls import EndCall

DEFAULT_PORT = 9464  # OpenTelemetry's default port for Prometheus
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class OpenTelemetry:
    """Records a span for each call, and metrics by method and status."""

    def __init__(self, registry: CollectorRegistry = REGISTRY, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("onhand.grpc", tracer_provider=provider)
        self._calls = Counter("onhand_grpc_calls", "Finished calls.", ("method", "code"), registry=registry)
        self._running = Gauge("onhand_grpc_calls_running", "Calls in progress.", registry=registry)
        self._seconds = Histogram(
            "onhand_grpc_call_seconds", "Duration of calls.", ("method",), buckets=SECONDS, registry=registry
        )

    def begin(self, method: str, request_id: str, metadata: Mapping[str, str]) -> EndCall:
        """Start a span that is current for the rest of the call, and return a function that ends it."""
        service, _, name = method.strip("/").partition("/")
        span = self._tracer.start_span(
            f"{service}/{name}",
            context=propagate.extract(dict(metadata)),
            kind=trace.SpanKind.SERVER,
            attributes={
                "rpc.system": "grpc",
                "rpc.service": service,
                "rpc.method": name,
                "onhand.request_id": request_id,
            },
        )
        context.attach(trace.set_span_in_context(span))  # until the task of this call ends
        self._running.inc()

        def end(code: str, seconds: float) -> None:
            self._running.dec()
            self._calls.labels(method, code).inc()
            self._seconds.labels(method).observe(seconds)
            span.set_attribute("rpc.grpc.status_code", code)
            if code != "OK":
                span.set_status(trace.StatusCode.ERROR, code)
            span.end()

        return end


def serve_metrics(host: str, port: int, registry: CollectorRegistry = REGISTRY) -> tuple[Any, int]:
    """Serve the metrics at http://HOST:PORT/metrics, and return the server and its port."""
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise InputError(f"cannot serve metrics at {host}:{port}: {error.strerror or error}") from None
    return server, server.server_port

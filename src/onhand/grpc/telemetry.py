"""How do OpenTelemetry and Prometheus see the calls? Both need the telemetry extra.

Spans go to the provider that this process has, such as `opentelemetry-instrument` sets up, and continue the caller's
trace. No span and no metric has anything of what was asked.
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

    from onhand.grpc.observe import End

DEFAULT_PORT = 9464  # where OpenTelemetry shows metrics to Prometheus
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class OpenTelemetry:
    """A span for each call, and metrics of all of them by method and status."""

    def __init__(self, registry: CollectorRegistry = REGISTRY, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("onhand.grpc", tracer_provider=provider)
        self._calls = Counter("onhand_grpc_calls", "Calls that ended.", ("method", "code"), registry=registry)
        self._running = Gauge("onhand_grpc_calls_running", "Calls that have not ended.", registry=registry)
        self._seconds = Histogram(
            "onhand_grpc_call_seconds", "How long calls took.", ("method",), buckets=SECONDS, registry=registry
        )

    def begin(self, method: str, request_id: str, metadata: Mapping[str, str]) -> End:
        """A call begins; its span is the current one for whatever is done for it."""
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
        context.attach(trace.set_span_in_context(span))  # of this call's task, which ends with it
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
    """Show the metrics at http://HOST:PORT/metrics; the server, and the port that it got."""
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise InputError(f"metrics cannot be shown at {host}:{port}: {error.strerror or error}") from None
    return server, server.server_port

"""OpenTelemetry spans of a run: one for the run, one for each request to the model, and one for each tool call.

Names follow OpenTelemetry's conventions for generative AI. A span contains names, counts and outcomes, but never the
text of a conversation. Exporting spans is up to the program that configures OpenTelemetry.
"""

import time
from typing import Any

from onhand.agent.events import Answered, Began, Calling, Ended, Event, Nested, Returned
from onhand.errors import MissingExtra


class AgentTelemetry:
    """A listener that records spans, by default with the tracer that the program has configured."""

    def __init__(self, model: str, tracer: Any = None) -> None:
        try:
            from opentelemetry import trace
        except ModuleNotFoundError as error:
            raise MissingExtra("telemetry", "telemetry") from error
        self._trace = trace
        self._tracer = tracer or trace.get_tracer("onhand")
        self._model = model
        self._run: Any = None
        self._calls: dict[str, Any] = {}
        self._children: dict[str, AgentTelemetry] = {}
        self._parent: Any = None
        self._request_ns = 0

    def __call__(self, event: Event) -> None:
        """Begin or end the span that an event belongs to."""
        if isinstance(event, Began):
            self._run = self._begin("invoke_agent", self._parent, {"gen_ai.request.model": self._model})
            self._request_ns = time.time_ns()
        elif isinstance(event, Answered):
            self._end_request(event)
        elif isinstance(event, Calling):
            attributes = {"gen_ai.tool.name": event.call.name, "gen_ai.tool.call.id": event.call.id}
            self._calls[event.call.id] = self._begin("execute_tool", self._run, attributes, event.call.name)
        elif isinstance(event, Returned):
            span = self._calls.pop(event.call.id, None)
            if span:
                self._end(span, "" if event.result.ok else "tool_error")
            self._request_ns = time.time_ns()
        elif isinstance(event, Nested):
            self._forward_to_child(event)
        elif isinstance(event, Ended):
            for span in self._calls.values():
                self._end(span, "cancelled")
            self._calls.clear()
            self._end(self._run, "" if event.outcome.end == "answer" else event.outcome.end)

    def _end_request(self, answer: Answered) -> None:
        attributes = {
            "gen_ai.request.model": self._model,
            "gen_ai.usage.input_tokens": answer.usage.input,
            "gen_ai.usage.output_tokens": answer.usage.output,
            "gen_ai.usage.cache_read.input_tokens": answer.usage.cached,
            "gen_ai.response.finish_reasons": [answer.stop],
        }
        self._begin("chat", self._run, attributes, self._model, self._request_ns).end()

    def _forward_to_child(self, event: Nested) -> None:
        if isinstance(event.event, Began):
            child = self._children[event.agent] = AgentTelemetry(self._model, self._tracer)
            child._parent = self._run
        if event.agent in self._children:
            self._children[event.agent](event.event)

    def _begin(
        self, operation: str, parent: Any, attributes: dict[str, Any], name: str = "", begin_ns: int | None = None
    ) -> Any:
        context = self._trace.set_span_in_context(parent) if parent else None
        return self._tracer.start_span(
            f"{operation} {name}".strip(),
            context=context,
            attributes={"gen_ai.operation.name": operation, **attributes},
            start_time=begin_ns,
        )

    def _end(self, span: Any, failure: str) -> None:
        if failure:
            span.set_attribute("error.type", failure)
            span.set_status(self._trace.StatusCode.ERROR)
        span.end()

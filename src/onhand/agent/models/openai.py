"""Models behind OpenAI's chat completions API, streamed over plain HTTP.

llama.cpp, Ollama, vLLM and most gateways have this API too, with small differences: calls without an id or an index,
whole answers instead of a stream, arguments that are an object.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onhand.agent.events import Answered, ModelEvent, Stream, Text, Thought, Usage
from onhand.agent.models.http import DEFAULT_PATIENCE, DONE, Patience, StreamingEndpoint
from onhand.errors import ModelError
from onhand.formats.message import Message, as_text
from onhand.formats.openai import ChatFormat
from onhand.http_client import RETRYABLE_STATUSES, RetryLater, parse_url

BASE_URL = "https://api.openai.com/v1"
API_KEY_ENV = "OPENAI_API_KEY"
STOPS = {
    "stop": "end",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "max_tokens",
    "content_filter": "refusal",
}


class OpenAiModel:
    """A model, by its name, at OpenAI or at any address with the same API."""

    def __init__(
        self,
        model: str,
        base_url: str = BASE_URL,
        api_key_env: str | None = API_KEY_ENV,
        max_output_tokens: int | None = None,
        patience: Patience = DEFAULT_PATIENCE,
    ) -> None:
        self.name = model
        self._format = ChatFormat()
        self._limit: dict[str, int] = {}
        if max_output_tokens:  # OpenAI's newer models refuse the name that everyone else uses
            name = "max_completion_tokens" if base_url.startswith("https://api.openai.com") else "max_tokens"
            self._limit = {name: max_output_tokens}
        base = base_url.rstrip("/") + ("" if parse_url(base_url).path.strip("/") else "/v1")
        self._endpoint = StreamingEndpoint(f"{base}/chat/completions", api_key_env, _headers, patience)

    def stream(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Stream:
        """Yield what the model says as it says it."""
        options = {"model": self.name, "stream": True, "stream_options": {"include_usage": True}, **self._limit}
        request = {**options, **self._format.request(messages, tools)}
        return self._endpoint.stream(request, lambda: _OpenAiReply(self._format))


def _headers(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


class _OpenAiReply:
    """The part of an answer that has arrived."""

    def __init__(self, form: ChatFormat) -> None:
        self.form = form
        self.texts: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.places: dict[Any, int] = {}
        self.usage: Mapping[str, Any] = {}
        self.stop = ""

    def take(self, value: Any) -> Iterator[ModelEvent]:
        """Add a chunk of the stream, and yield the events that follow from it."""
        if value == DONE:
            self.stop = self.stop or "stop"
            return
        value = _mapping(value)
        if value.get("error"):
            _raise_error(value["error"])
        self.usage = _mapping(value.get("usage")) or self.usage
        for choice in [_mapping(one) for one in _list(value.get("choices"))[:1]]:
            delta = _mapping(choice.get("delta")) or _mapping(choice.get("message"))
            yield from self._add_text(delta)
            for call in _list(delta.get("tool_calls")):
                self._add_call(_mapping(call))
            self.stop = str(choice.get("finish_reason") or self.stop)

    def finish(self) -> Answered:
        """Return the whole answer; RetryLater when it is incomplete."""
        if not self.stop:
            raise RetryLater("broke off in the middle of an answer")
        for call in self.calls:
            call["function"]["arguments"] = "".join(call["function"]["arguments"])
        message = self.form.read({"content": "".join(self.texts), "tool_calls": self.calls})
        stop = STOPS.get(self.stop, "end")
        if message.calls and stop == "end":  # some servers do that
            stop = "calls"
        return Answered(message, stop, _usage(self.usage))

    def _add_text(self, delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
        for field in ("reasoning_content", "reasoning"):
            if isinstance(delta.get(field), str) and delta[field]:
                yield Thought(delta[field])
                break
        for field in ("content", "refusal"):
            if isinstance(delta.get(field), str) and delta[field]:
                self.texts.append(delta[field])
                yield Text(delta[field])

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        """Add a piece to the call with its index, unless the id is new; without an index, to the last call."""
        function, id, place = _mapping(piece.get("function")), str(piece.get("id") or ""), piece.get("index")
        known = len(self.calls) - 1 if place is None else self.places.get(str(place), -1)
        begins = place is None and (id or function.get("name"))
        if known < 0 or begins or id not in ("", self.calls[known]["id"]):
            known = len(self.calls)
            self.calls.append({"id": id or f"call_{known + 1}", "function": {"name": "", "arguments": []}})
            self.places[str(place)] = known
        call = self.calls[known]["function"]
        call["name"] = call["name"] or str(function.get("name") or "")
        arguments = function.get("arguments")
        call["arguments"].append(arguments if isinstance(arguments, str) else as_text(arguments) if arguments else "")


def _raise_error(error: Any) -> None:
    details = _mapping(error)
    description = str(details.get("message") or error)[:300]
    code = details.get("code") or details.get("status")
    if str(code).isdigit() and int(str(code)) in RETRYABLE_STATUSES:
        raise RetryLater(f"broke off with {description}")
    raise ModelError(f"the model's server broke off with {description}")


def _usage(counts: Mapping[str, Any]) -> Usage:
    details = _mapping(counts.get("prompt_tokens_details"))
    tokens = (counts.get("prompt_tokens"), counts.get("completion_tokens"), details.get("cached_tokens"))
    return Usage(*(count if isinstance(count, int) else 0 for count in tokens))


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []

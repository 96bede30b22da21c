"""Models behind OpenAI's chat completions API, streamed over plain HTTP.

llama.cpp, Ollama, vLLM and most gateways offer this API too, with small differences: calls may lack an id or an index,
an answer may come whole instead of as a stream, and arguments may be an object.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onhand.agent.events import Answered, ModelEvent, Stream, Text, Thought, Usage
from onhand.agent.models.http import DEFAULT_POLICY, DONE, RequestPolicy, StreamingEndpoint, as_count, as_object
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
    """A model at OpenAI, or at another address with the same API."""

    def __init__(
        self,
        model: str,
        base_url: str = BASE_URL,
        api_key_env: str | None = API_KEY_ENV,
        max_output_tokens: int | None = None,
        policy: RequestPolicy = DEFAULT_POLICY,
    ) -> None:
        self.name = model
        self._format = ChatFormat()
        self._limit: dict[str, int] = {}
        if max_output_tokens:  # OpenAI's newer models reject the name that everyone else uses
            name = "max_completion_tokens" if base_url.startswith("https://api.openai.com") else "max_tokens"
            self._limit = {name: max_output_tokens}
        base = base_url.rstrip("/") + ("" if parse_url(base_url).path.strip("/") else "/v1")
        self._endpoint = StreamingEndpoint(f"{base}/chat/completions", api_key_env, _headers, policy)

    def stream(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Stream:
        """Yield the answer as it arrives."""
        return self._endpoint.stream(self.build_request(messages, tools), lambda: _OpenAiReply(self._format))

    def build_request(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the body of the request, which the server receives as JSON."""
        options = {"model": self.name, "stream": True, "stream_options": {"include_usage": True}, **self._limit}
        return {**options, **self._format.request(messages, tools)}


def _headers(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


class _OpenAiReply:
    """The part of an answer that has arrived."""

    def __init__(self, form: ChatFormat) -> None:
        self.form = form
        self.texts: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.places: dict[str, int] = {}  # index → position in `calls`
        self.usage: Mapping[str, Any] = {}
        self.stop = ""

    def take(self, value: Any) -> Iterator[ModelEvent]:
        """Add a chunk of the stream, and yield the resulting events."""
        if value == DONE:
            self.stop = self.stop or "stop"
            return
        value = as_object(value)
        if value.get("error"):
            _raise_error(value["error"])
        self.usage = as_object(value.get("usage")) or self.usage
        for choice in [as_object(one) for one in _list(value.get("choices"))[:1]]:
            delta = as_object(choice.get("delta")) or as_object(choice.get("message"))
            yield from self._add_text(delta)
            for call in _list(delta.get("tool_calls")):
                self._add_call(as_object(call))
            self.stop = str(choice.get("finish_reason") or self.stop)

    def finish(self) -> Answered:
        """Return the complete answer. Raise RetryLater if it is incomplete."""
        if not self.stop:
            raise RetryLater("broke off in the middle of an answer")
        for call in self.calls:
            call["function"]["arguments"] = "".join(call["function"]["arguments"])
        message = self.form.read({"content": "".join(self.texts), "tool_calls": self.calls})
        stop = STOPS.get(self.stop, "end")
        if message.calls and stop == "end":  # some servers report it so
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
        """Add a piece to the call with its index or, without an index, to the last call. A new id begins a call."""
        function, id, index = as_object(piece.get("function")), str(piece.get("id") or ""), piece.get("index")
        place = len(self.calls) - 1 if index is None else self.places.get(str(index), -1)
        begins = index is None and (id or function.get("name"))
        if place < 0 or begins or id not in ("", self.calls[place]["id"]):
            place = len(self.calls)
            self.calls.append({"id": id or f"call_{place + 1}", "function": {"name": "", "arguments": []}})
            self.places[str(index)] = place
        call = self.calls[place]["function"]
        call["name"] = call["name"] or str(function.get("name") or "")
        arguments = function.get("arguments")
        call["arguments"].append(arguments if isinstance(arguments, str) else as_text(arguments) if arguments else "")


def _raise_error(error: Any) -> None:
    details = as_object(error)
    description = str(details.get("message") or error)[:300]
    code = details.get("code") or details.get("status")
    if str(code).isdigit() and int(str(code)) in RETRYABLE_STATUSES:
        raise RetryLater(f"broke off with {description}")
    raise ModelError(f"the model's server broke off with {description}")


def _usage(counts: Mapping[str, Any]) -> Usage:
    details = as_object(counts.get("prompt_tokens_details"))
    tokens = (counts.get("prompt_tokens"), counts.get("completion_tokens"), details.get("cached_tokens"))
    return Usage(*map(as_count, tokens))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []

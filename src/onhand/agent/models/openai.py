"""What does a model behind OpenAI's chat completions say? Over plain HTTP, streamed.

llama.cpp, Ollama, vLLM and most gateways speak this form too, each with small habits of its own: calls without an id or
without a place, whole answers where a stream was asked for, arguments that are an object.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onhand.agent.events import Answered, ModelEvent, Stream, Text, Thought, Usage
from onhand.agent.models.http import DONE, PATIENT, Endpoint, Later, Patience
from onhand.endpoint import PASSING, accepted_url
from onhand.errors import ModelError
from onhand.formats.message import Message, as_text
from onhand.formats.openai import ChatFormat

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
    """A model by its name, at OpenAI or at any address that speaks as it does."""

    def __init__(
        self,
        model: str,
        base_url: str = BASE_URL,
        api_key_env: str | None = API_KEY_ENV,
        max_output_tokens: int | None = None,
        patience: Patience = PATIENT,
    ) -> None:
        self.name = model
        self._format = ChatFormat()
        self._limit: dict[str, int] = {}
        if max_output_tokens:  # OpenAI's newer models refuse the name that all others know
            name = "max_completion_tokens" if base_url.startswith("https://api.openai.com") else "max_tokens"
            self._limit = {name: max_output_tokens}
        base = base_url.rstrip("/") + ("" if accepted_url(base_url).path.strip("/") else "/v1")
        self._endpoint = Endpoint(f"{base}/chat/completions", api_key_env, _headers, patience)

    def stream(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Stream:
        """What it says, as it says it."""
        asked = {"model": self.name, "stream": True, "stream_options": {"include_usage": True}, **self._limit}
        wanted = {**asked, **self._format.request(messages, tools)}
        return self._endpoint.events(wanted, lambda: _Reply(self._format))


def _headers(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


class _Reply:
    """What has arrived of an answer."""

    def __init__(self, form: ChatFormat) -> None:
        self.form = form
        self.texts: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.places: dict[Any, int] = {}
        self.usage: Mapping[str, Any] = {}
        self.stop = ""

    def take(self, value: Any) -> Iterator[ModelEvent]:
        """Add a chunk of the stream; what it lets a listener know."""
        if value == DONE:
            self.stop = self.stop or "stop"
            return
        value = _mapping(value)
        if value.get("error"):
            _raise(value["error"])
        self.usage = _mapping(value.get("usage")) or self.usage
        for choice in [_mapping(one) for one in _list(value.get("choices"))[:1]]:
            delta = _mapping(choice.get("delta")) or _mapping(choice.get("message"))
            yield from self._said(delta)
            for call in _list(delta.get("tool_calls")):
                self._call(_mapping(call))
            self.stop = str(choice.get("finish_reason") or self.stop)

    def answered(self) -> Answered:
        """The whole of it; Later when it broke off."""
        if not self.stop:
            raise Later("broke off in the middle of an answer")
        for call in self.calls:
            call["function"]["arguments"] = "".join(call["function"]["arguments"])
        message = self.form.read({"content": "".join(self.texts), "tool_calls": self.calls})
        stop = STOPS.get(self.stop, "end")
        if message.calls and stop == "end":  # as some servers have it
            stop = "calls"
        return Answered(message, stop, _usage(self.usage))

    def _said(self, delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
        for field in ("reasoning_content", "reasoning"):
            if isinstance(delta.get(field), str) and delta[field]:
                yield Thought(delta[field])
                break
        for field in ("content", "refusal"):
            if isinstance(delta.get(field), str) and delta[field]:
                self.texts.append(delta[field])
                yield Text(delta[field])

    def _call(self, said: Mapping[str, Any]) -> None:
        """Join a piece to its call: that of its place, unless it brings another id; without a place, the last one."""
        function, id, place = _mapping(said.get("function")), str(said.get("id") or ""), said.get("index")
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


def _raise(error: Any) -> None:
    told = _mapping(error)
    said = str(told.get("message") or error)[:300]
    code = told.get("code") or told.get("status")
    if str(code).isdigit() and int(str(code)) in PASSING:
        raise Later(f"broke off with {said}")
    raise ModelError(f"the model's server broke off with {said}")


def _usage(said: Mapping[str, Any]) -> Usage:
    details = _mapping(said.get("prompt_tokens_details"))
    counts = (said.get("prompt_tokens"), said.get("completion_tokens"), details.get("cached_tokens"))
    return Usage(*(count if isinstance(count, int) else 0 for count in counts))


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []

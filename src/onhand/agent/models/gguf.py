"""GGUF models that llama.cpp runs in this process, with conversations in FunctionGemma's format."""

import os
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from threading import Event, Lock
from typing import Any

from onhand.agent.events import Answered, Stream, Text, Usage
from onhand.agent.models.model import Emit, stream_from_thread
from onhand.embed.gguf import HUB_PREFIX, import_llama, read_header, start_llama_server
from onhand.embed.hub import HubFile, fetch
from onhand.errors import EmbedderError, InputError, ModelError
from onhand.formats.functiongemma import STOPS, FunctionGemmaFormat
from onhand.formats.message import Message

MAX_CONTEXT_TOKENS = 8192  # of a conversation, unless the model supports fewer
MAX_OUTPUT_TOKENS = 1024
CALL = "<start_function_call>"


class GgufModel:
    """A model from a file, or from `hf:OWNER/REPOSITORY/FILE.gguf`, which is downloaded on first use.

    It answers one request at a time; other conversations wait.
    """

    def __init__(
        self,
        model: str,
        max_context_tokens: int = MAX_CONTEXT_TOKENS,
        max_output_tokens: int = MAX_OUTPUT_TOKENS,
        threads: int | None = None,
    ) -> None:
        if not model or "\0" in model:
            raise InputError("the model must be a path or hf:OWNER/REPOSITORY/FILE.gguf")
        self.name = os.path.splitext(os.path.basename(model))[0]
        self._path = model
        self._hub = HubFile.parse(model.removeprefix(HUB_PREFIX)) if model.startswith(HUB_PREFIX) else None
        self._format = FunctionGemmaFormat()
        self._limits = (max_context_tokens, max_output_tokens)
        self._threads = threads
        self._server: Any = None
        self._turn = Lock()

    async def stream(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Stream:
        """Yield the answer as it arrives, but calls only when they are complete."""
        request = {
            **self._format.request(messages, tools),
            "n_predict": self._limits[1],
            "temperature": 0,  # the choice of a tool should not vary
            "stop": list(STOPS),
            "cache_prompt": True,
            "stream": True,
        }
        over = Event()
        texts: list[str] = []
        last: Mapping[str, Any] = {}
        async with aclosing(stream_from_thread(lambda emit: self._generate(request, emit, over), over.set)) as values:
            async for last in values:
                text = last["choices"][0]["text"]
                texts.append(text)
                if text and CALL not in "".join(texts):
                    yield Text(text)
        yield self._parse_answer("".join(texts), last)

    def _parse_answer(self, text: str, last: Mapping[str, Any]) -> Answered:
        message = self._format.read(text)
        calls = tuple(call._replace(id=f"call_{number}") for number, call in enumerate(message.calls, 1))
        stop = "calls" if calls else "end"
        if last.get("choices", [{}])[0].get("finish_reason") == "length":
            stop = "max_tokens"
        usage = last.get("usage") or {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        counts = Usage(usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0), cached)
        return Answered(message._replace(calls=calls), stop, counts)

    def _generate(self, request: Mapping[str, Any], emit: Emit, over: Event) -> None:
        failures: list[str] = []

        def take(value: Mapping[str, Any]) -> bool:
            """Pass a value on, and return True to make llama.cpp stop."""
            if "error" in value:
                failures.append(str(value["error"].get("message"))[:300])
                return True
            emit(value)
            return over.is_set()

        with self._turn:
            if not over.is_set():
                self._load().handle_completions(dict(request), take)
        if failures:
            raise ModelError(f"llama.cpp stopped with an error: {failures[0]}")

    def _load(self) -> Any:
        if self._server is None:
            import_llama(ModelError)  # fail before anything is downloaded
            try:
                path = fetch(self._hub, None) if self._hub else self._path
                tokens = min(read_header(path).max_tokens, self._limits[0])
            except EmbedderError as error:  # its message explains what is wrong with the file
                raise ModelError(str(error)) from None

            def adjust(params: Any) -> None:
                params.n_ctx = tokens
                params.special = True  # otherwise the tokens that begin a call would be left out

            self._server = start_llama_server(path, adjust, self._threads, ModelError)
        return self._server

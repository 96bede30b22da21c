"""What does a GGUF model in this process say? llama.cpp, with the conversation spelled as FunctionGemma was trained."""

import os
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from threading import Event, Lock
from typing import Any

from onhand.agent.events import Answered, Stream, Text, Usage
from onhand.agent.models.threaded import Tell, threaded
from onhand.embed import llama
from onhand.embed.gguf import HUB_PREFIX
from onhand.embed.gguf_header import header_of
from onhand.embed.hub import HubFile, fetch
from onhand.errors import EmbedderError, InputError, ModelError
from onhand.formats.functiongemma import STOPS, FunctionGemmaFormat
from onhand.formats.message import Message

MAX_CONTEXT_TOKENS = 8192  # what is kept free for a conversation, unless the model reads less
MAX_OUTPUT_TOKENS = 1024
CALL = "<start_function_call>"


class GgufModel:
    """A model of a file, or of `hf:OWNER/REPOSITORY/FILE.gguf`. Nothing is read or downloaded before it is asked.

    It says one thing at a time: requests of several conversations wait for each other.
    """

    def __init__(
        self,
        model: str,
        form: FunctionGemmaFormat | None = None,
        max_context_tokens: int = MAX_CONTEXT_TOKENS,
        max_output_tokens: int = MAX_OUTPUT_TOKENS,
        threads: int | None = None,
    ) -> None:
        if not model or "\0" in model:
            raise InputError("the model is a path, or hf:OWNER/REPOSITORY/FILE.gguf")
        self.name = os.path.splitext(os.path.basename(model))[0]
        self._path = model
        self._hub = HubFile.named(model.removeprefix(HUB_PREFIX)) if model.startswith(HUB_PREFIX) else None
        self._format = form or FunctionGemmaFormat()
        self._limits = (max_context_tokens, max_output_tokens)
        self._threads = threads
        self._server: Any = None
        self._turn = Lock()

    async def stream(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Stream:
        """What it says, as it says it; a call is told when it is whole."""
        wanted = {
            **self._format.request(messages, tools),
            "n_predict": self._limits[1],
            "temperature": 0,  # which tool to call is no matter of taste
            "stop": list(STOPS),
            "cache_prompt": True,
            "stream": True,
        }
        over = Event()
        texts: list[str] = []
        last: Mapping[str, Any] = {}
        async with aclosing(threaded(lambda tell: self._say(wanted, tell, over), over.set)) as values:
            async for last in values:
                text = last["choices"][0]["text"]
                texts.append(text)
                if text and CALL not in "".join(texts):
                    yield Text(text)
        yield self._answered("".join(texts), last)

    def _answered(self, text: str, last: Mapping[str, Any]) -> Answered:
        message = self._format.read(text)
        calls = tuple(call._replace(id=f"call_{number}") for number, call in enumerate(message.calls, 1))
        stop = "calls" if calls else "end"
        if last.get("choices", [{}])[0].get("finish_reason") == "length":
            stop = "max_tokens"
        usage = last.get("usage") or {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        counted = Usage(usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0), cached)
        return Answered(message._replace(calls=calls), stop, counted)

    def _say(self, wanted: Mapping[str, Any], tell: Tell, over: Event) -> None:
        failures: list[str] = []

        def take(value: Mapping[str, Any]) -> bool:
            """True asks llama.cpp to stop."""
            if "error" in value:
                failures.append(str(value["error"].get("message"))[:300])
                return True
            tell(value)
            return over.is_set()

        with self._turn:
            if not over.is_set():
                self._loaded().handle_completions(dict(wanted), take)
        if failures:
            raise ModelError(f"llama.cpp cannot go on: {failures[0]}")

    def _loaded(self) -> Any:
        if self._server is None:
            llama.parts(ModelError)  # before anything is downloaded
            try:
                path = fetch(self._hub, None) if self._hub else self._path
                tokens = min(header_of(path).max_tokens, self._limits[0])
            except EmbedderError as error:  # it says what is wrong with the file
                raise ModelError(str(error)) from None

            def adjust(params: Any) -> None:
                params.n_ctx = tokens
                params.special = True  # or the tokens that begin a call would be left out of what it says

            self._server = llama.start(path, adjust, self._threads, ModelError)
        return self._server

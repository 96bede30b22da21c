"""What does a GGUF model in this process say? llama.cpp, with the conversation spelled as FunctionGemma was trained."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock, Thread
from typing import Any

from onhand.agent.events import Answered, Stream, Text, Usage
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
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[tuple[Any, BaseException | None]] = asyncio.Queue()
        said = _Said(loop, arrived)
        Thread(target=self._work, args=(wanted, said), name="model", daemon=True).start()
        texts: list[str] = []
        shown = True
        last: Mapping[str, Any] = {}
        try:
            while True:
                value, failure = await arrived.get()
                if failure is not None:
                    raise failure
                if value is None:
                    break
                last = value
                text = value["choices"][0]["text"]
                texts.append(text)
                shown = shown and CALL not in "".join(texts[-2:])
                if text and shown:
                    yield Text(text)
        finally:
            said.nobody_listens = True
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

    def _work(self, wanted: Mapping[str, Any], said: "_Said") -> None:
        try:
            with self._turn:
                if not said.nobody_listens:
                    self._loaded().handle_completions(dict(wanted), said)
            said.tell(None, said.failure)
        except BaseException as failure:
            said.tell(None, failure)

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


class _Said:
    """Takes what llama.cpp says, in its thread; true asks it to stop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, arrived: "asyncio.Queue[Any]") -> None:
        self._loop, self._arrived = loop, arrived
        self.nobody_listens = False
        self.failure: ModelError | None = None

    def __call__(self, value: Mapping[str, Any]) -> bool:
        if "error" in value:
            told = value["error"] if isinstance(value["error"], dict) else {}
            self.failure = ModelError(f"llama.cpp cannot go on: {str(told.get('message'))[:300]}")
            return True
        self.tell(value)
        return self.nobody_listens

    def tell(self, value: Any, failure: BaseException | None = None) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, (value, failure))

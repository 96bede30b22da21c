"""A model server on loopback that plays a script: it makes one call after the other, and then it ends."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from clients.sent import Dialect, Sent
from loopback import Asked, Reply, serving
from onhand.tools import Call

Step = Callable[[Sequence[str]], Call]
"""Chooses the next call from the results of those before it; the call names a tool as onhand does."""

DONE = "The script is over."


class ScriptedModel:
    """What answers in place of a model, and what it was sent."""

    def __init__(self, dialect: Dialect, prefix: str, script: Sequence[Step]) -> None:
        self._dialect = dialect
        self._prefix = prefix  # of the names under which the client lists our tools
        self._script = script
        self.sent: list[Sent] = []  # each request of the conversation
        self.unknown: list[str] = []  # requests for anything but an answer of the model
        self.url = ""

    def answer(self, asked: Asked) -> Reply:
        """Answer one request of the client. The results in it say how far the script has been played."""
        if not self._dialect.is_asked(asked):
            self.unknown.append(f"{asked.method} {asked.path}")
            return Reply({"error": {"message": "This server has nothing but a model."}}, status=404)
        sent = self._dialect.read(asked.json)
        if not sent.listings:  # clients ask for a title of the conversation, and for other things beside it
            return self._dialect.say("A title")
        self.sent.append(sent)
        if len(sent.results) >= len(self._script):
            return self._dialect.say(DONE)
        call = self._script[len(sent.results)](sent.results)
        name = self._prefix + call.name
        if name not in sent.names:
            return self._dialect.say(f"There is no tool {name}.")
        return self._dialect.call(Call(name, call.arguments, f"call_{len(sent.results)}"))


@contextmanager
def model_server(model: ScriptedModel) -> Iterator[None]:
    """Serve the model at its `url` until the block ends."""
    with serving(model.answer) as server:
        model.url = server.url
        yield

"""What can every model do? Take a conversation and tools, and stream what it says: the seam under the loop."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from onhand.agent.events import Stream
from onhand.formats.message import Message


class Model(Protocol):
    """A model. It keeps nothing of a conversation: all of it comes with every request."""

    name: str

    def stream(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Stream:
        """What the model says, as it says it; the last event is `Answered`, and there is one of them.

        A ModelError says what can be done. Cancelling, or closing the iterator, ends the work at the model's end too.
        """

"""Does anybody still wait for the answer? Whoever works asks here between steps; whoever waits can say no.

A door puts a question into the context of the call that it runs, and the rooms below ask it without knowing of doors,
deadlines or connections. Where nobody put one, the answer is wanted.
"""

from __future__ import annotations

from _contextvars import ContextVar  # what `contextvars` has, without its Python part

from onhand.errors import Unwanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_ASK: ContextVar[Callable[[], bool] | None] = ContextVar("wanted", default=None)


def ask_whether(is_wanted: Callable[[], bool]) -> None:
    """From now on, in this context, go on only while this says yes, and whatever was asked before does."""
    before = _ASK.get()
    _ASK.set(is_wanted if before is None else lambda: is_wanted() and before())


def check() -> None:
    """Go on if the answer is still wanted; Unwanted if not."""
    is_wanted = _ASK.get()
    if is_wanted is not None and not is_wanted():
        raise Unwanted("nobody waits for the answer any more: ask again with more time")

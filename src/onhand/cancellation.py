"""Cooperative cancellation: long work checks between steps whether its caller still waits for the result.

A door sets a predicate in the context of the call that it runs, and the packages below check it without knowing
anything about doors, deadlines or connections. Where no predicate is set, work is never cancelled.
"""

from __future__ import annotations

from _contextvars import ContextVar  # that of `contextvars`, without its Python part

from onhand.errors import Cancelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_IS_WANTED: ContextVar[Callable[[], bool] | None] = ContextVar("is_wanted", default=None)


def continue_while(is_wanted: Callable[[], bool]) -> None:
    """Cancel the work in this context as soon as `is_wanted` or an earlier predicate returns False."""
    before = _IS_WANTED.get()
    _IS_WANTED.set(is_wanted if before is None else lambda: is_wanted() and before())


def check() -> None:
    """Raise Cancelled if the caller no longer waits for the result."""
    is_wanted = _IS_WANTED.get()
    if is_wanted is not None and not is_wanted():
        raise Cancelled("the caller no longer waits for the result: try again with a longer timeout")

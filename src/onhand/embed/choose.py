"""Which embedder is at hand?"""

from __future__ import annotations

from onhand.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.embed.embedder import Embedder


def chosen(wanted: Embedder | str | None) -> tuple[Embedder | None, str | None]:
    """The embedder that was asked for, or None and why there is none."""
    if wanted is None:
        return None, None
    if not isinstance(wanted, str):
        return wanted, None
    if wanted != "auto":
        raise InputError(f"there is no embedder {wanted!r}")
    return None, "no embedder is installed"

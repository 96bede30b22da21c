"""Choose the connection or session that makes room for a new one when there are too many.

Refusing the new one would let a client that opens many and uses none keep all others out. Unproven ones go first, as
soon as they fill a part of the places: the oldest of the peer that has most of them. Otherwise the one goes that has
been idle for longest. There is no limit per peer, because behind a reverse proxy all clients have one address.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


UNPROVEN_PART = 4  # one of so many places is for items that have proved nothing: a new one needs time for that


class EvictionOrder(Generic[Item]):
    """Items in the order in which they make room; one that is held does not."""

    def __init__(self, max_items: int) -> None:
        self._max = max_items
        self._peers: dict[Item, str] = {}
        self._unproven: dict[str, dict[Item, float]] = {}  # by peer, with the time since when, the oldest first
        self._idle: dict[Item, float] = {}  # the same of those that have proved themselves

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, item: Item) -> bool:
        return item in self._peers

    def add(self, item: Item, peer: str, now: float) -> None:
        """Add an item that has proved nothing yet."""
        self._peers[item] = peer
        self.release(item, now, is_proven=False)

    def hold(self, item: Item) -> None:
        """Keep an item, which is in use, until it is released."""
        self._idle.pop(item, None)
        peer = self._peers.get(item, "")
        unproven = self._unproven.get(peer, {})
        if unproven.pop(item, None) is not None and not unproven:
            del self._unproven[peer]

    def release(self, item: Item, now: float, is_proven: bool) -> None:
        """Let an item make room again, unless it has been removed."""
        if item in self._peers:
            items = self._idle if is_proven else self._unproven.setdefault(self._peers[item], {})
            items[item] = now

    def remove(self, item: Item) -> None:
        """Forget an item."""
        self.hold(item)
        self._peers.pop(item, None)

    def choose(self) -> Item | None:
        """Return the item that makes room for one more; None if there is room, or if all items are held."""
        if len(self._peers) < self._max:
            return None
        most: dict[Item, float] = max(self._unproven.values(), key=len, default={})
        count = sum(map(len, self._unproven.values()))
        is_unproven = most and (not self._idle or count * UNPROVEN_PART >= self._max)
        return next(iter(most if is_unproven else self._idle), None)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for one more."""
        return len(self._peers) >= self._max

    def find_expired(self, unproven_before: float, idle_before: float) -> list[Item]:
        """Return what has proved nothing since one time, or has been idle since another."""
        found = [item for items in self._unproven.values() for item, since in items.items() if since < unproven_before]
        return found + [item for item, since in self._idle.items() if since < idle_before]

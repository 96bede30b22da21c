"""Whose turn is it? Reads go in side by side, a write goes in alone, all in the order in which they came.

Nobody overtakes: a write is never starved, and a read that came after a write sees what it wrote. A place in
line is a Future, so that callers on different threads and event loops can stand in the same line.
"""

from collections import deque
from concurrent.futures import Future
from threading import Lock


class Place:
    """A place in the line of a Gate; `admitted` is done when its turn has come."""

    def __init__(self, exclusive: bool) -> None:
        self.exclusive = exclusive
        self.admitted: Future[None] = Future()
        self.admitted.set_running_or_notify_cancel()  # who gives up calls leave(); nothing cancels it


class Gate:
    """Admits at most `limit` shared places, or one exclusive place, first come first served."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._waiting: deque[Place] = deque()
        self._inside: list[Place] = []

    def line_up(self, exclusive: bool) -> Place:
        """Take the next place in line; never waits."""
        place = Place(exclusive)
        with self._lock:
            self._waiting.append(place)
            admitted = self._admit()
        _tell(admitted)
        return place

    def leave(self, place: Place) -> None:
        """Give a place back, whether its turn had come or not."""
        with self._lock:
            if place in self._inside:
                self._inside.remove(place)
            elif place in self._waiting:
                self._waiting.remove(place)
            admitted = self._admit()
        _tell(admitted)

    def _admit(self) -> list[Place]:
        admitted = []
        while self._waiting and self._has_room_for(self._waiting[0]):
            place = self._waiting.popleft()
            self._inside.append(place)
            admitted.append(place)
        return admitted

    def _has_room_for(self, place: Place) -> bool:
        if place.exclusive:
            return not self._inside
        return len(self._inside) < self._limit and not any(other.exclusive for other in self._inside)


def _tell(admitted: list[Place]) -> None:
    # Outside the lock: telling runs the waiters' callbacks.
    for place in admitted:
        place.admitted.set_result(None)

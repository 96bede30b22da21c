"""Is the model going round in circles? Calls of one name with equal arguments, between which nothing was changed."""

import json
from collections.abc import Iterable

from onhand.formats.message import as_mapping
from onhand.tools.registry import Call


class Repeats:
    """Counts calls by turn, so that equal calls of one turn count once. Only calls that ran are told to it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: dict[str, int] = {}

    def one_too_many(self, calls: Iterable[Call]) -> Call | None:
        """The call that was made `limit` times already, if there is one."""
        return next((call for call in calls if self._counts.get(_key(call), 0) >= self._limit), None)

    def ran(self, calls: Iterable[Call], writers: Iterable[Call]) -> None:
        """Count the calls of a turn. After a new one that may write, looking again at the same thing is no circle."""
        if any(_key(call) not in self._counts for call in writers):
            self._counts.clear()
        for key in {_key(call) for call in calls}:
            self._counts[key] = self._counts.get(key, 0) + 1


def _key(call: Call) -> str:
    return f"{call.name} {json.dumps(as_mapping(call.arguments), sort_keys=True)}"

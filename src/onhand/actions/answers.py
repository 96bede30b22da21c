"""What do the tools of this room have in common? A text for the model, the same as JSON, and one form of failure."""

import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, TypeVar

from onhand.actions.spellings import SPELLINGS
from onhand.errors import NotFound, OnhandError, ToolError
from onhand.tools import Output, Tool
from onhand.tools.fitting import within
from onhand.tools.tool import LOCAL, Hints, closed_schema

Schema = dict[str, Any]

MAX_OUTPUT_BYTES = 64 * 1024
_ROOM = MAX_OUTPUT_BYTES - 512  # a little is left for what surrounds an answer

T = TypeVar("T")


def action(
    name: str,
    description: str,
    properties: Schema,
    required: list[str],
    handler: Callable[[dict[str, Any]], Output],
    shape: type,
    *,
    read_only: bool = True,
    hints: Hints = LOCAL,
    exists: Callable[[str], bool] | None = None,
) -> Tool:
    """A tool that says `success`, and when it fails `error` and, where that may be told, whether its path `exists`."""
    from onhand.tools.schema import answer_schema

    schema = closed_schema(properties, required)

    def answered(arguments: dict[str, Any]) -> Output:
        try:
            text, structured = handler(arguments)
            return Output(text, within(structured, MAX_OUTPUT_BYTES))  # a net: each looks after its own size
        except NotFound as error:
            raise ToolError(str(error), {"success": False, "error": str(error), "exists": False}) from None
        except OnhandError as error:  # whatever we refuse is said to the model
            fields = {"success": False, "error": str(error)}
            with suppress(OnhandError):  # of what is closed or outside, nothing is told
                fields |= {"exists": exists(arguments["path"])} if exists and "path" in arguments else {}
            raise ToolError(str(error), fields) from None

    return Tool(
        name,
        description,
        schema,
        answered,
        read_only=read_only,
        max_output_bytes=MAX_OUTPUT_BYTES,
        aliases=SPELLINGS.get(name, {}),
        output_schema=answer_schema(shape),
        hints=hints,
    )


def succeeded(text: str, **fields: Any) -> Output:
    """What went well, as a text and as JSON."""
    return Output(text, {"success": True, **fields})


def fits(output: Output) -> bool:
    """Whether an answer is within what a tool of this room may say."""
    return _size(output) <= _ROOM


def fitting(items: Sequence[T], chars: Callable[[T], int], answer: Callable[[Sequence[T]], Output]) -> Output:
    """An answer with as many of the items as fit, at least one; each takes as many bytes as it has `chars`, or more."""
    most = max(1, bisect_right(list(accumulate(map(chars, items))), _ROOM))
    output = answer(items[:most])
    if fits(output):
        return output
    count = bisect_right(range(1, most), _ROOM, key=lambda count: _size(answer(items[:count])))
    return answer(items[: max(1, count)])


def _size(output: Output) -> int:
    size = len(json.dumps(output.structured, ensure_ascii=False).encode("utf-8", "replace"))
    return max(size, len(output.text.encode("utf-8", "replace")))

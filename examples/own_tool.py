"""Turn a typed function into a tool: its signature becomes the schema, its docstring the description.

python examples/own_tool.py
"""

import asyncio
import json
from typing import Annotated, Literal

from onhand import Call, Registry, ToolError, tool

CENTS_PER_MINUTE = {"bicycle": 12, "cargo": 25}


@tool(read_only=True)  # which lets calls run side by side; other tools run one at a time
def ride_price(
    minutes: Annotated[int, "How long the ride took.", {"minimum": 0}],
    bike: Literal["bicycle", "cargo"] = "bicycle",
) -> str:
    """The price of a ride in euros."""
    if minutes > 24 * 60:
        raise ToolError("no ride is longer than a day: ask for each day by itself")
    euros, cents = divmod(minutes * CENTS_PER_MINUTE[bike], 100)
    return f"{euros}.{cents:02d} €"


async def main() -> None:
    registry = Registry([ride_price])
    print(json.dumps(registry.wire(), indent=2))

    calls = [  # of one turn, as a model may send them
        Call("ride_price", {"minutes": 30}, id="1"),
        Call("ride_price", {"minutes": 30, "bike": "cargo"}, id="2"),
        Call("ride_price", {"minuts": 30}, id="3"),
        Call("ride_price", {"minutes": 5000}, id="4"),
        Call("rideprice", {"minutes": 30}, id="5"),
    ]
    for call, result in zip(calls, await registry.dispatch(calls), strict=True):
        print(f"\n{call.name}({json.dumps(call.arguments)})")
        print(f"{'ok' if result.ok else 'error'}: {result.text}")


asyncio.run(main())

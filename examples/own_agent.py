"""Build an agent from a model, some tools, a function that approves calls, and a listener.

python examples/own_agent.py            with a script in place of a model
python examples/own_agent.py MODEL      with a real one, such as anthropic:NAME or openai:NAME
"""

import asyncio
import sys

from onhand import Agent, Call, Message, Tool, tool
from onhand.agent.approval import Approval
from onhand.agent.events import Event, render_event
from onhand.agent.models.scripted import Line, ScriptedModel

STOCK = {"bell": 3, "saddle": 0}


@tool(read_only=True)
def in_stock(part: str) -> str:
    """Return how many of a part are in stock."""
    return str(STOCK.get(part, "there is no such part"))


@tool
def order(part: str, number: int) -> str:
    """Order a part from the supplier."""
    STOCK[part] += number
    return f"ordered {number}"


async def ask(call: Call, tool: Tool, reason: str) -> str:
    print(f"? {reason}: {call.arguments} – allowed, this once")
    return "allow_once"


def listen(event: Event) -> None:
    if line := render_event(event):
        print(line)


script: list[Line] = [
    Message("assistant", "", (Call("in_stock", {"part": "bell"}), Call("in_stock", {"part": "saddle"}))),
    Message("assistant", "", (Call("order", {"part": "saddle", "number": 5}),)),
    "There were three bells and no saddles, so I ordered five saddles.",
]
model = sys.argv[1] if len(sys.argv) > 1 else ScriptedModel(script)
agent = Agent(model, [in_stock, order], approval=Approval(ask=ask), listeners=[listen])
outcome = asyncio.run(agent.run("Look after the stock of bells and saddles: there should be some of each."))
print(f"{outcome.end} after {outcome.turns} turns: {outcome.text}")

"""Sub-agents: a tool that hands a task to a separate conversation with fewer tools and its own limits.

A sub-agent has the same approval policy and the same listeners. It has no `delegate` tool itself.
"""

from collections.abc import Collection
from functools import partial
from typing import Any

from onhand.agent.events import Event, Limits, Nested
from onhand.agent.loop import Agent
from onhand.agent.toolbox import Toolbox
from onhand.errors import ToolError
from onhand.tools.tool import Tool

NAME = "delegate"
MAX_OUTPUT_BYTES = 16 * 1024
CHILD_LIMITS = Limits(max_turns=10)
DESCRIPTION = (
    "Hand a task to a helper that starts without this conversation, has its own tools to search and read, and answers "
    "with a short report. Good for a search through so much material that it would fill this conversation, and for "
    "several independent questions: call it once for each, in the same turn. Poor for what you can look up in one or "
    "two calls, and for what needs this conversation: it knows only what you write. Expensive: each is a run of up to "
    '{turns} turns. Example: delegate(name="flags", task="Find every page on feature flags, and list their rules.").'
)


def make_delegate_tool(
    parent: Agent, toolbox: Toolbox, tools: Collection[str] | None = None, limits: Limits = CHILD_LIMITS
) -> Tool:
    """Return the `delegate` tool of an agent. `tools` names those of its sub-agents, by default those that only read.

    Sub-agents run in parallel if none of their tools may write.
    """
    chosen = [
        tool for tool in toolbox if tool.name != NAME and (tool.read_only if tools is None else tool.name in tools)
    ]

    async def run(arguments: dict[str, Any]) -> str:
        name, task = str(arguments["name"]), str(arguments["task"])
        listener = partial(_forward, parent, name)
        child = Agent(
            parent.model,
            toolbox.child([tool.name for tool in chosen]),
            parent.parts,
            approval=parent.approval,
            limits=limits,
            listeners=[listener],
        )
        outcome = await child.run(task)
        if outcome.end == "answer":
            return outcome.text or "(the helper returned an empty answer)"
        raise ToolError(f"the helper stopped without an answer ({outcome.detail}). Its last words: {outcome.text}")

    return Tool(
        name=NAME,
        description=DESCRIPTION.format(turns=limits.max_turns),
        input_schema={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "A one-word name for the helper.", "maxLength": 60},
                "task": {"type": "string", "description": "Everything it needs to know, and what it should report."},
            },
            "required": ["name", "task"],
        },
        handler=run,
        read_only=all(tool.read_only for tool in chosen),
        max_output_bytes=MAX_OUTPUT_BYTES,
        timeout_s=None,  # its turns are limited instead
    )


def _forward(parent: Agent, name: str, event: Event) -> None:
    parent.notify(Nested(name, event))

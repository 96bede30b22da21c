"""How does an agent hand work on? To a child: a conversation of its own, with fewer tools and a budget of its own.

A child is approved by the same policy and told to the same listeners. Its words are the result of one tool, `delegate`,
which children do not have.
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
CHILD = Limits(max_turns=10)
DESCRIPTION = (
    "Hand a task to a helper that begins without this conversation, has tools of its own to search and read with, and "
    "answers with a short report. Good for a search through much that would fill this conversation, and for several "
    "questions that do not need each other: call it once for each, in one turn. Bad for what you can look up in one or "
    "two calls, and for what needs this conversation: it knows only what you write. Dear: each is a run of up to "
    '{turns} turns. Example: delegate(name="flags", task="Find every page on feature flags, and list their rules.").'
)


def delegate(parent: Agent, toolbox: Toolbox, tools: Collection[str] | None = None, limits: Limits = CHILD) -> Tool:
    """The tool for an agent over its toolbox; `tools` names those that children have, by default those that only read.

    Children run side by side when none of their tools may write.
    """
    chosen = [
        tool for tool in toolbox if tool.name != NAME and (tool.read_only if tools is None else tool.name in tools)
    ]

    async def run(arguments: dict[str, Any]) -> str:
        name, task = str(arguments["name"]), str(arguments["task"])
        listener = partial(_pass_on, parent, name)
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
            return outcome.text or "(the helper has nothing to say)"
        raise ToolError(f"the helper stopped without an answer ({outcome.detail}). Its last words: {outcome.text}")

    return Tool(
        name=NAME,
        description=DESCRIPTION.format(turns=limits.max_turns),
        input_schema={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "What to call the helper, in a word.", "maxLength": 60},
                "task": {"type": "string", "description": "All that it has to know, and what it should report."},
            },
            "required": ["name", "task"],
        },
        handler=run,
        read_only=all(tool.read_only for tool in chosen),
        max_output_bytes=MAX_OUTPUT_BYTES,
        timeout_s=None,  # its turns are limited
    )


def _pass_on(parent: Agent, name: str, event: Event) -> None:
    parent.tell(Nested(name, event))

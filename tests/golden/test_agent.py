"""Does the model still read the same words about its work? They stand before every conversation."""

import json
from collections.abc import Callable

from onhand.agent.loop import Agent, make_delegate_tool
from onhand.agent.models.scripted import ScriptedModel
from onhand.agent.prompt import CORE
from onhand.agent.toolbox import Toolbox
from requirements import requirement


@requirement("agent.prompt-order", "agent.sub-agents")
def test_the_core_prompt_and_the_tool_that_hands_work_on_are_the_same_words(golden: Callable[[str, str], None]) -> None:
    toolbox = Toolbox([])
    wire = make_delegate_tool(Agent(ScriptedModel([]), toolbox), toolbox).wire()
    assert all(word in wire["description"] for word in ("Good ", "Poor ", "Expensive: ", "Example: "))
    golden("agent.json", json.dumps({"core": CORE, "delegate": wire}, indent=2, ensure_ascii=False) + "\n")

"""Give an agent its context: pinned files and a manifest in the system prompt, everything else through tools.

python examples/agent_context.py
"""

from pathlib import Path

import onhand

project = onhand.open(Path(__file__).parent / "sample-project")  # nothing is read before it is used
registry = project.registry()  # every tool that the project offers to a model

system_prompt = project.context.prompt()  # byte for byte the same until a file changes, so prompt caches hold
tools = registry.wire()  # name, description and input_schema of each tool, for the model's API

print(f"system prompt: {len(system_prompt):,} characters, beginning {system_prompt.splitlines()[0]!r}")
print(f"tools: {', '.join(tool['name'] for tool in tools)}")

# When the model calls a tool, hand the call over as it came: a mapping, or JSON text.
result = registry.call("context_search", '{"query": "roll back a service", "k": 1}')
print(f"ok: {result.ok}")
print(result.text)

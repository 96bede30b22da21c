"""The smallest real use: pinned files and a manifest in the system prompt, the rest behind one tool.

python examples/agent_context.py
"""

from pathlib import Path

from onhand import Context, Registry

context = Context(Path(__file__).parent / "sample-project")  # the directory that has .AGENTS/
registry = Registry([context.tool()])

system_prompt = context.prompt()  # byte for byte the same until a file changes, so prompt caches hold
tools = registry.wire()  # name, description and input_schema of each tool, for the model's API

print(f"system prompt: {len(system_prompt):,} characters, beginning {system_prompt.splitlines()[0]!r}")
print(f"tools: {', '.join(tool['name'] for tool in tools)}")

# When the model calls a tool, hand the call over as it came: a mapping, or JSON text.
result = registry.call("context_search", '{"query": "roll back a service", "k": 1}')
print(f"ok: {result.ok}")
print(result.text)

"""Show what a coding agent learns about a repository: rules by path, skills by task, and one search across everything.

python examples/rules_and_skills.py
"""

from pathlib import Path

import onhand
from onhand import rules_on_touch

PROJECT = Path(__file__).parent / "sample-project"

project = onhand.open(PROJECT, settings={"skills.user": False})  # the project's own skills, not the user's too
skills, registry = project.skills, project.registry()
rules = project.rules_of(str(PROJECT))  # project.rules are those of the whole repository, which here is onhand's

# The root's AGENTS.md and where there are more, then the names of all skills. Nothing else is in the prompt.
system_prompt = f"{rules.prompt()}\n\n{skills.catalog().text}"
print(system_prompt)

# A host that sees the model touch a file adds the rules of its directory to the tool's result, each file once.
seen: dict[str, str] = {}
for path in ("services/ledger/posting.go", "services/ledger/refund.go"):
    print(f"\nrules that come with {path}: {len(rules_on_touch(rules, path, seen)):,} characters")

# A skill is found by the task and read when it is needed. Its scripts are named, and never run from here.
for name, arguments in (
    ("search_skills", {"query": "a returned bike still costs money", "limit": 1}),
    ("read_skill_reference", {"skill": "close-receipt-gaps", "path": "references/answers.md"}),
):
    result = registry.call(name, arguments)
    print(f"\n→ {name}({arguments})\n{result.text.splitlines()[0]}")
for script in skills.scripts("close-receipt-gaps"):
    print(f"script: {script.qualified_name}: {script.description}")

# If you do not know where to look, search everything at once.
print()
for hit in project.search("price for the sailing week", limit=4).hits:
    print(f"{hit.score:.2f}  {hit.kind}: {hit.finding.title}  ({hit.finding.place})")

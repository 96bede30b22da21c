"""Checks tariff rules in a JSON file and names what the tariff service would refuse.

python scripts/check_rules.py rules.json
"""

import json
import sys
from typing import Any

TOWNS = {"emden", "stralsund", "esbjerg", "sakaiminato"}
CONDITIONS = {"bike_kind", "pass_kind", "weekday", "local_time", "zone", "minutes_over"}
JOINED = {"all", "any"}
EFFECTS = {"fee", "per_minute", "percent_off", "cap_per_ride", "cap_per_day", "free_minutes"}


def problems_of(rule: dict[str, Any]) -> list[str]:
    """What is wrong with one rule, in the words of a review."""
    found = [] if rule.get("town") in TOWNS else [f"there is no town {rule.get('town')!r}"]
    if type(rule.get("priority")) is not int:
        found.append("it needs a priority, a whole number")
    found += conditions(rule.get("condition", {}))
    for name, amount in rule.get("effect", {}).items():
        if name not in EFFECTS:
            found.append(f"there is no effect {name!r}")
        elif type(amount) is not int:
            found.append(f"{name} is {amount!r}: amounts are whole numbers of the smallest unit")
    if not rule.get("effect"):
        found.append("it has no effect")
    return found


def conditions(condition: dict[str, Any]) -> list[str]:
    found = []
    for name, value in condition.items():
        if name in JOINED:
            found += [problem for inner in value for problem in conditions(inner)]
        elif name == "not":
            found += conditions(value)
        elif name not in CONDITIONS:
            found.append(f"there is no condition {name!r}")
    return found


def main(path: str) -> int:
    with open(path, encoding="utf-8") as file:
        rules = json.load(file)
    found = [f"rule {number}: {problem}" for number, rule in enumerate(rules, 1) for problem in problems_of(rule)]
    print("\n".join(found) or f"{len(rules)} rules, nothing to mend")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

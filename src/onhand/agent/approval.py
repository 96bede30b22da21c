"""May this call run? A policy of rules allows, asks or denies; whoever is there is asked, and the answer gates it.

It knows tools and paths, but no door: how a person is asked is a function that the door gives.
"""

import os
from collections.abc import Awaitable, Callable, Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple, Protocol

from onhand.agent.events import Asked, Listener
from onhand.agent.nested_rules import paths_of
from onhand.errors import InputError
from onhand.tools.registry import Call
from onhand.tools.tool import Tool

ACTIONS = ("allow", "ask", "deny")
ANSWERS = ("allow_once", "allow_always", "reject_once", "reject_always")  # as ACP names them

Ask = Callable[[Call, Tool, str], Awaitable[str]]
"""Asks whoever is there about a call, of that tool and for that reason; gives one of ANSWERS."""


class Rule(NamedTuple):
    """What to do about calls of tools whose name fits a pattern; the first rule that fits decides.

    With a `path`, a pattern from the project's root, the paths that a call names have to fit too: all of them where it
    allows, any of them where it does not.
    """

    action: str
    tool: str = "*"
    path: str = ""
    read_only: bool | None = None


DEFAULT = (Rule("allow", read_only=True), Rule("ask"))


class Refusal(NamedTuple):
    """Why a call does not run, for the model to read."""

    text: str
    by_person: bool


class Gatekeeper(Protocol):
    """Who decides about calls."""

    async def check(self, call: Call, tool: Tool, tell: Listener) -> Refusal | None:
        """Why a call may not run; None if it may."""


class Approval:
    """A policy, and somebody to ask. Without anybody, what would be asked is refused."""

    def __init__(self, rules: Iterable[Rule] = DEFAULT, ask: Ask | None = None, root: str = ".") -> None:
        self._ask = ask
        self._root = os.path.realpath(root)
        self._always: dict[tuple[str, str, str], str] = {}
        self.decide_by(rules)

    def decide_by(self, rules: Iterable[Rule]) -> None:
        """Decide by these rules from the next call on; what was answered for always stays answered."""
        self._rules = tuple(rules)
        for rule in self._rules:
            if rule.action not in ACTIONS:
                raise InputError(f"a rule allows, asks or denies: {rule.action[:60]!r} is none of {', '.join(ACTIONS)}")

    async def check(self, call: Call, tool: Tool, tell: Listener) -> Refusal | None:
        """Why a call may not run; None if it may. An answer for always holds for this tool as it is now."""
        rule = next((rule for rule in self._rules if self._fits(rule, call, tool)), Rule("ask"))
        if rule.action == "allow":
            return None
        if rule.action == "deny":
            return Refusal(f"{tool.name} is denied here by a rule ({_spelled(rule)}): do it another way", False)
        # Not by the name alone: another tool may come to have it.
        known = (tool.name, tool.description, repr(tool.input_schema))
        answer = self._always.get(known)
        if answer is None:
            if self._ask is None:
                return Refusal(
                    f"{tool.name} needs somebody's approval, and nobody is there to ask: do it another way, or say "
                    "what should be done",
                    False,
                )
            reason = f"{tool.name} may change something" if not tool.read_only else f"a rule asks ({_spelled(rule)})"
            answer = await self._ask(call, tool, reason)
            tell(Asked(call, reason, answer))
            if answer in ("allow_always", "reject_always"):
                self._always[known] = answer
        if answer in ("allow_once", "allow_always"):
            return None
        return Refusal(f"the user does not allow this call of {tool.name}: ask what to do instead", True)

    def _fits(self, rule: Rule, call: Call, tool: Tool) -> bool:
        if not fnmatchcase(tool.name, rule.tool) or rule.read_only not in (None, tool.read_only):
            return False
        if not rule.path:
            return True
        fits = [fnmatchcase(self._in_project(path), rule.path) for path in paths_of(call)]
        return bool(fits) and all(fits) if rule.action == "allow" else any(fits)

    def _in_project(self, path: str) -> str:
        """A path from the root, after links; what leads out of there stays absolute, and fits no relative pattern."""
        real = os.path.realpath(os.path.join(self._root, path))
        inside = real == self._root or real.startswith(os.path.join(self._root, ""))
        return os.path.relpath(real, self._root).replace(os.sep, "/") if inside else real


def _spelled(rule: Rule) -> str:
    return f"{rule.action} {rule.tool}{' in ' + rule.path if rule.path else ''}"

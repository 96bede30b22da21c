"""Approval of calls: rules allow a call, deny it, or leave the decision to a person.

How that person is asked is up to the caller.
"""

import os
from collections.abc import Awaitable, Callable, Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple, Protocol

from onhand.agent.events import Asked, Listener
from onhand.agent.toolbox import call_paths
from onhand.errors import InputError
from onhand.tools.registry import Call
from onhand.tools.tool import Tool

ACTIONS = ("allow", "ask", "deny")
ANSWERS = ("allow_once", "allow_always", "reject_once", "reject_always")  # as ACP names them

Ask = Callable[[Call, Tool, str], Awaitable[str]]
"""Asks a person about a call of a tool, given the reason for asking, and returns one of ANSWERS."""


class ApprovalRule(NamedTuple):
    """An action for calls of tools whose names match a pattern. The first matching rule decides.

    With a `path`, a pattern relative to the project's root, the paths in the arguments must match too: all of them for
    a rule that allows, at least one for any other rule.
    """

    action: str
    tool: str = "*"
    path: str = ""
    read_only: bool | None = None


DEFAULT_RULES = (ApprovalRule("allow", read_only=True), ApprovalRule("ask"))


def rules_for(allow: Iterable[str], deny: Iterable[str]) -> tuple[ApprovalRule, ...]:
    """Return rules that deny and allow tools by name or pattern, to be put before all other rules."""
    return (*(ApprovalRule("deny", name) for name in deny), *(ApprovalRule("allow", name) for name in allow))


class CallRefusal(NamedTuple):
    """The reason why a call is not run, for the model."""

    text: str
    by_person: bool


class Gatekeeper(Protocol):
    """Decides about calls."""

    async def check(self, call: Call, tool: Tool, notify: Listener) -> CallRefusal | None:
        """Return why a call may not run, or None if it may."""


class Approval:
    """Rules, and a function that asks a person. Without that function, calls that need approval are refused."""

    def __init__(self, rules: Iterable[ApprovalRule] = DEFAULT_RULES, ask: Ask | None = None, root: str = ".") -> None:
        self._ask = ask
        self._root = os.path.realpath(root)
        self._always: dict[tuple[str, str, str], str] = {}
        self.set_rules(rules)

    def set_rules(self, rules: Iterable[ApprovalRule]) -> None:
        """Use these rules from the next call on. Earlier "always" answers still apply."""
        self._rules = tuple(rules)
        for rule in self._rules:
            if rule.action not in ACTIONS:
                raise InputError(f"the action of a rule must be one of {', '.join(ACTIONS)}, not {rule.action[:60]!r}")

    async def check(self, call: Call, tool: Tool, notify: Listener) -> CallRefusal | None:
        """Return why a call may not run, or None if it may. "Always" answers apply until the tool changes."""
        rule = next((rule for rule in self._rules if self._matches(rule, call, tool)), ApprovalRule("ask"))
        rule = _apply_policy(rule, tool)
        if rule.action == "allow":
            return None
        if rule.action == "deny":
            return CallRefusal(f"{tool.name} is denied by a rule ({_describe_rule(rule)}): do it another way", False)
        # The name alone would not do, because another tool may take it later.
        identity = (tool.name, tool.description, repr(tool.input_schema))
        answer = self._always.get(identity)
        if answer is None:
            if self._ask is None:
                return CallRefusal(
                    f"{tool.name} needs approval, and there is no one to ask: do it another way, or describe what "
                    "should be done",
                    False,
                )
            required = f"a rule requires approval ({_describe_rule(rule)})"
            reason = required if tool.read_only else f"{tool.name} may change something"
            answer = await self._ask(call, tool, reason)
            notify(Asked(call, reason, answer))
            if answer in ("allow_always", "reject_always"):
                self._always[identity] = answer
        if answer in ("allow_once", "allow_always"):
            return None
        return CallRefusal(f"the user rejected this call of {tool.name}: ask what to do instead", True)

    def _matches(self, rule: ApprovalRule, call: Call, tool: Tool) -> bool:
        if not fnmatchcase(tool.name, rule.tool) or rule.read_only not in (None, tool.read_only):
            return False
        if not rule.path:
            return True
        matches = [fnmatchcase(self._relative_path(path), rule.path) for path in call_paths(call)]
        return bool(matches) and all(matches) if rule.action == "allow" else any(matches)

    def _relative_path(self, path: str) -> str:
        """Return a path relative to the root; outside of it, absolute, so that no relative pattern matches."""
        real = os.path.realpath(os.path.join(self._root, path))
        inside = real == self._root or real.startswith(os.path.join(self._root, ""))
        return os.path.relpath(real, self._root).replace(os.sep, "/") if inside else real


def _apply_policy(rule: ApprovalRule, tool: Tool) -> ApprovalRule:
    """Apply the user's policy for a tool to a rule: it may be stricter, or replace the last resort."""
    is_replaced = rule == ApprovalRule("ask") if tool.policy == "allow" else rule.action == "allow"
    return ApprovalRule(tool.policy, tool.name) if tool.policy and is_replaced else rule


def _describe_rule(rule: ApprovalRule) -> str:
    return f"{rule.action} {rule.tool}{' in ' + rule.path if rule.path else ''}"

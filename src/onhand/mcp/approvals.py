"""Approve or reject servers and tools, and notice when an approved one changes.

A server is approved by its program or address, a tool by its whole definition. One that differs from what was approved
is blocked until a person has seen the difference. A tool is rejected by its name, whatever it says about itself later,
and stays blocked until a person approves it. The approvals are a JSON file of the user's, written atomically,
since `onhand mcp approve` may write it while a gateway reads it.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import unified_diff
from typing import Any, NamedTuple

from onhand.errors import NotFound, StoreError
from onhand.fsio import FileLock, describe_fault, make_directories, open_regular, write_atomic
from onhand.mcp.servers import ServerConfig
from onhand.mcp.suspicions import steered_names, suspicions
from onhand.text import digest

APPROVED_FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
MAX_FILE_BYTES = 256 * 1024 * 1024
REJECTED = "was rejected"  # why a tool or server is blocked
MAX_APPROVED = 100_000  # tools of a server over time: one that keeps renaming its tools would fill the disk


class PendingApproval(NamedTuple):
    """A tool that waits for a person's approval, or, if `tool` is empty, a server."""

    server: str
    tool: str
    reasons: tuple[str, ...]
    before: str  # empty if it is new
    after: str

    @property
    def difference(self) -> str:
        """What changed, line by line; everything if it is new."""
        lines = unified_diff(self.before.splitlines(), self.after.splitlines(), "approved", "now", lineterm="", n=2)
        return "\n".join(lines)


class Scan(NamedTuple):
    """What a check of a definition found, regardless of other tools."""

    steered_names: tuple[str, ...]  # the names that it steers a model to or from
    suspicions: tuple[str, ...]


def scan_definition(definition: Mapping[str, Any]) -> Scan:
    """Check a definition, which takes a tenth of a millisecond or more."""
    return Scan(tuple(sorted(steered_names(definition))), suspicions(definition))


def definition_of(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a listed tool that is approved."""
    return {name: tool[name] for name in APPROVED_FIELDS if tool.get(name) is not None}


def fingerprint(definition: Mapping[str, Any]) -> str:
    """Return a digest that is the same for two definitions only if they are equal as JSON."""
    return digest(json.dumps(definition, sort_keys=True).encode())


class Approvals:
    """What is approved and what is pending. With a path, approvals are stored and those of other processes are seen."""

    def __init__(self, path: str | None = None, policy: str = "auto") -> None:
        self._path = path
        self._policy = policy
        self._servers: dict[str, dict[str, Any]] = {}
        self._stamp: tuple[int, ...] | None = None
        self._has_news = False
        self.refresh()

    def refresh(self) -> bool:
        """Read what other processes approved, and return whether there is anything new since the last call."""
        self._reload()
        has_news, self._has_news = self._has_news, False
        return has_news

    def _reload(self) -> None:
        stamp = self._change_stamp()
        if self._path is not None and stamp != self._stamp:
            self._servers, self._stamp, self._has_news = _read_approvals(self._path), stamp, True

    def blocked_server(self, server: ServerConfig) -> str | None:
        """Return why a server may not be started or contacted, or None; a new server is recorded."""
        known = self._servers.get(server.key, {}).get("identity", {})
        if known.get("approved") == server.identity:
            return None
        if known.get("rejected") == server.identity:
            return f"{server.key} {REJECTED}. To use it after all, run `onhand mcp approve {server.key}`."
        is_new = "approved" not in known
        if is_new and self._policy == "auto":
            with self._editing():
                self._entry(server.key)["identity"] = {"approved": server.identity, "shown": server.summary}
            return None
        if known.get("waiting") != server.identity:
            with self._editing():
                self._entry(server.key).setdefault("identity", {}).update(
                    waiting=server.identity, waiting_shown=server.summary
                )
        what = "is new" if is_new else "has another command or address than the one that was approved"
        return f"{server.key} {what}. Review it with `onhand mcp review {server.key}`, then approve it."

    def is_approved(self, key: str, name: str, definition: Mapping[str, Any]) -> bool:
        """Return whether a tool was approved exactly as it is."""
        known = self._servers.get(key, {}).get("tools", {}).get(name)
        return known is not None and known["pin"] == fingerprint(definition)

    def screen(
        self,
        key: str,
        definitions: Mapping[str, Mapping[str, Any]],
        others: Collection[str] = (),
        scans: Mapping[str, Scan] | None = None,
    ) -> dict[str, str]:
        """Approve the tools of a list that need no person, and return why the others are blocked.

        `others` are the names of other servers' tools, and `scans` are of definitions that were checked before.
        """
        known = self._servers.get(key, {})
        tools, before, rejected_before = (known.get(part, {}) for part in ("tools", "waiting", "rejected"))
        approved: dict[str, Any] = {}
        waiting: dict[str, Any] = {}
        rejected = dict(rejected_before)  # even if the server no longer lists them
        for name, definition in definitions.items():
            pin = fingerprint(definition)
            is_known = name in tools and tools[name]["pin"] == pin
            earlier = Scan(tuple(tools[name].get("named", ())), ()) if is_known else (scans or {}).get(name)
            scan = earlier or scan_definition(definition)
            reasons = [] if is_known else [*self._reasons(name in tools), *scan.suspicions]
            if name not in tools and len(tools) + len(approved) >= MAX_APPROVED:
                reasons.append(f"comes after {MAX_APPROVED:,} other tools of its server")
            steered = next((other for other in scan.steered_names if other in others), None)
            reasons += [f"tells a model how to use another server's tool ({steered})"] if steered else []
            entry = {"pin": pin, "definition": dict(definition)}
            if name in rejected:
                rejected[name] = entry
            elif reasons:
                waiting[name] = {**entry, "reasons": reasons}
            elif not is_known:
                approved[name] = {**entry, "named": list(scan.steered_names)}
        if approved or waiting != before or rejected != rejected_before:
            with self._editing():
                server = self._entry(key)
                server.setdefault("tools", {}).update(approved)
                server["waiting"], server["rejected"] = waiting, rejected
        return {name: REJECTED for name in rejected if name in definitions} | {
            name: "; ".join(entry["reasons"]) for name, entry in waiting.items()
        }

    def _reasons(self, was_approved: bool) -> list[str]:
        if was_approved:
            return ["changed since it was approved"]
        return ["is new"] if self._policy == "ask" else []

    def mentions_any(self, key: str, names: Collection[str]) -> bool:
        """Return whether a tool that no person has approved tells a model how to use one of these."""
        tools = self._servers.get(key, {}).get("tools", {})
        return any(name in names for entry in tools.values() for name in entry.get("named", ()))

    def pending(self, key: str | None = None) -> tuple[PendingApproval, ...]:
        """Return what waits for a person's approval, of one server or of all."""
        self._reload()
        pending = []
        for name, server in sorted(self._servers.items()):
            if key is not None and name != key:
                continue
            identity = server.get("identity", {})
            if "waiting" in identity:
                reasons = ("changed since it was approved",) if "approved" in identity else ("is new",)
                pending.append(PendingApproval(name, "", reasons, identity.get("shown", ""), identity["waiting_shown"]))
            for tool, entry in sorted(server.get("waiting", {}).items()):
                earlier = server.get("tools", {}).get(tool, {"pin": entry["pin"]})
                is_new = earlier["pin"] == entry["pin"]  # to people: the policy may have approved it before
                before = "" if is_new else _render_definition(earlier["definition"])
                after = _render_definition(entry["definition"])
                pending.append(PendingApproval(name, tool, tuple(entry["reasons"]), before, after))
        return tuple(pending)

    def rejected_tools(self, key: str) -> tuple[str, ...]:
        """Return the tools of a server that a person rejected."""
        self._reload()
        return tuple(sorted(self._servers.get(key, {}).get("rejected", {})))

    def approve(self, key: str, tools: Collection[str] = ()) -> tuple[str, ...]:
        """Approve a server with all its pending tools, or only some tools; return the names of what was approved.

        What was rejected is approved only by its name: a tool by that of the tool, a server if nothing else is named.
        """
        with self._editing():
            server = self._entry(key)
            identity = server.get("identity", {})
            kind = next((kind for kind in ("waiting", "rejected") if kind in identity and not tools), "")
            chosen = self._choose_pending(key, tools, self.rejected_tools(key), is_server=bool(kind))
            if kind:
                server["identity"] = {"approved": identity[kind], "shown": identity[f"{kind}_shown"]}
            for name in chosen:
                entry = server.get("waiting", {}).pop(name, None) or server["rejected"][name]
                server.get("rejected", {}).pop(name, None)
                server.setdefault("tools", {})[name] = {"pin": entry["pin"], "definition": entry["definition"]}
        return chosen if tools else (key, *chosen)

    def reject(self, key: str, tools: Collection[str] = ()) -> tuple[str, ...]:
        """Reject a server with all its pending tools, or only some tools; return the names of what was rejected."""
        with self._editing():
            server = self._entry(key)
            identity = server.get("identity", {})
            is_server = "waiting" in identity and not tools
            chosen = self._choose_pending(key, tools, is_server=is_server)
            if is_server:
                for member in ("", "_shown"):
                    identity[f"rejected{member}"] = identity.pop(f"waiting{member}")
            for name in chosen:
                entry = server["waiting"].pop(name)
                server.setdefault("rejected", {})[name] = {"pin": entry["pin"], "definition": entry["definition"]}
        return (key, *chosen) if is_server else chosen

    def _choose_pending(
        self, key: str, tools: Collection[str], others: Collection[str] = (), is_server: bool = False
    ) -> tuple[str, ...]:
        """Return the pending tools with these names, or all if none are named; `others` may be named as well.

        Raise NotFound for an unknown name and, unless the server itself is meant, if nothing is pending.
        """
        pending = tuple(entry.tool for entry in self.pending(key) if entry.tool)
        unknown = [name for name in tools if name not in pending and name not in others]
        if unknown:
            listed = ", ".join([*pending, *others]) or "none"
            raise NotFound(f"{key} has no such tool waiting for approval: {', '.join(unknown)}. Waiting: {listed}.")
        if not pending and not tools and not is_server:
            advice = f" Rejected tools are approved by name: {', '.join(others)}." if others else ""
            raise NotFound(f"Nothing of {key} waits for approval.{advice}")
        return tuple(dict.fromkeys(tools)) or pending

    def approve_server(self, server: ServerConfig) -> None:
        """Approve the program or address of a server that the user has just added."""
        with self._editing():
            self._entry(server.key)["identity"] = {"approved": server.identity, "shown": server.summary}

    def forget(self, key: str) -> None:
        """Forget a server, so that a later one with its name is new."""
        with self._editing():
            self._servers.pop(key, None)

    def _entry(self, key: str) -> dict[str, Any]:
        return self._servers.setdefault(key, {})

    def _change_stamp(self) -> tuple[int, ...] | None:
        if self._path is None:
            return None
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    @contextmanager
    def _editing(self) -> Iterator[None]:
        """Change the stored approvals, under a lock and on top of what other processes wrote."""
        if self._path is None:
            yield
            return
        try:
            make_directories(os.path.dirname(self._path), 0o700)
            with FileLock(f"{self._path}.lock"):
                self._reload()
                yield
                write_atomic(self._path, json.dumps({"servers": self._servers}, sort_keys=True).encode())
                self._stamp = self._change_stamp()
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {describe_fault(error)}") from None


def _read_approvals(path: str) -> dict[str, dict[str, Any]]:
    """Return the approvals of a file; a damaged file is an error, never an approval."""
    try:
        with open_regular(path) as file:
            content = json.loads(file.read(MAX_FILE_BYTES))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}). Make it readable.") from None
    except (ValueError, RecursionError):
        content = None
    servers = content.get("servers") if isinstance(content, dict) else None
    if not isinstance(servers, dict) or not all(map(_is_valid, servers.values())):
        raise StoreError(f"{path} does not contain approvals. Repair it, or delete it and approve the servers again.")
    return servers


def _is_valid(server: Any) -> bool:
    if not isinstance(server, dict) or not all(
        isinstance(server.get(part, {}), dict) for part in ("identity", "tools", "waiting", "rejected")
    ):
        return False
    entries = [entry for part in ("tools", "waiting", "rejected") for entry in server.get(part, {}).values()]
    return all(
        isinstance(entry, dict)
        and isinstance(entry.get("pin"), str)
        and "definition" in entry
        and isinstance(entry.get("named", []), list)
        for entry in entries
    )


def _render_definition(definition: Any) -> str:
    return json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=True)

"""Approve servers and tools, and notice when an approved one changes.

Is this still what was approved? The program or address of each server, and what each of its tools says of itself.

A tool is pinned when it is approved; one that differs from its pin is held until a person has seen the difference.
A tool is pinned when it is approved; one that differs is held until a person has seen the difference.
JSON file of the user's, written whole or not at all; `onhand mcp approve` may write it while a gateway reads it.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from onhand.errors import NotFound, StoreError
from onhand.fsio import open_regular
from onhand.mcp.sanitize import named_in, suspicions
from onhand.mcp.servers import ServerConfig
from onhand.text import digest

PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_PINNED = 100_000  # tools of a server in all its time: one that renames its tools every second would fill the disk


class Waiting(NamedTuple):
    """Something that waits for a person: a server itself where `tool` is empty, else one of its tools."""

    server: str
    tool: str
    reasons: tuple[str, ...]
    before: str  # as lines, empty where it is new
    after: str

    @property
    def difference(self) -> str:
        """What changed, line by line; all of it where it is new."""
        from difflib import unified_diff

        lines = unified_diff(self.before.splitlines(), self.after.splitlines(), "approved", "now", lineterm="", n=2)
        return "\n".join(lines)


class Look(NamedTuple):
    """What a definition says by itself, whatever else there is."""

    named: tuple[str, ...]  # the names that it leads a model to or from
    suspicions: tuple[str, ...]


def look(definition: Mapping[str, Any]) -> Look:
    """Look through a definition, which takes a tenth of a millisecond or more."""
    return Look(tuple(sorted(named_in(definition))), suspicions(definition))


def definition_of(tool: Mapping[str, Any]) -> dict[str, Any]:
    """What is pinned of a tool of tools/list."""
    return {name: tool[name] for name in PINNED if tool.get(name) is not None}


def pin(definition: Mapping[str, Any]) -> str:
    """The same for two definitions only if they are equal as JSON."""
    return digest(json.dumps(definition, sort_keys=True).encode())


class Approvals:
    """What was approved and what waits. With a path it survives a restart, and other processes' approvals are seen."""

    def __init__(self, path: str | None = None, policy: str = "auto") -> None:
        self._path = path
        self._policy = policy
        self._servers: dict[str, dict[str, Any]] = {}
        self._stamp: tuple[int, ...] | None = None
        self._is_news = False
        self.refresh()

    def refresh(self) -> bool:
        """Read what another process approved; whether there was anything new since this was asked last."""
        self._read_again()
        is_news, self._is_news = self._is_news, False
        return is_news

    def _read_again(self) -> None:
        stamp = self._now()
        if self._path is not None and stamp != self._stamp:
            self._servers, self._stamp, self._is_news = _read(self._path), stamp, True

    def held_server(self, server: ServerConfig) -> str | None:
        """Why a server may not be started or spoken to; None when it may. What is new is entered."""
        known = self._servers.get(server.key, {}).get("identity", {})
        if known.get("approved") == server.identity:
            return None
        is_new = "approved" not in known
        if is_new and self._policy == "auto":
            with self._writing():
                self._of(server.key)["identity"] = {"approved": server.identity, "shown": server.shown}
            return None
        if known.get("waiting") != server.identity:
            with self._writing():
                self._of(server.key).setdefault("identity", {}).update(
                    waiting=server.identity, waiting_shown=server.shown
                )
        what = "is new" if is_new else "has another command or address than the one that was approved"
        return f"{server.key} {what}: look at it with `onhand mcp review {server.key}`, then approve it"

    def is_pinned(self, key: str, name: str, definition: Mapping[str, Any]) -> bool:
        """Whether a tool was approved just as it is."""
        known = self._servers.get(key, {}).get("tools", {}).get(name)
        return known is not None and known["pin"] == pin(definition)

    def screened(
        self,
        key: str,
        definitions: Mapping[str, Mapping[str, Any]],
        others: Collection[str] = (),
        looks: Mapping[str, Look] | None = None,
    ) -> dict[str, str]:
        """Which tools of a list are held, and why; `others` are the names of other servers' tools.

        `looks` are at definitions that were looked through before.
        """
        known = self._servers.get(key, {})
        pins, before = known.get("tools", {}), known.get("waiting", {})
        approved: dict[str, Any] = {}
        waiting: dict[str, Any] = {}
        for name, definition in definitions.items():
            seal = pin(definition)
            is_known = name in pins and pins[name]["pin"] == seal
            seen = Look(tuple(pins[name].get("named", ())), ()) if is_known else (looks or {}).get(name)
            named, suspicious = seen or look(definition)
            reasons = [] if is_known else [*self._reasons(name in pins), *suspicious]
            if name not in pins and len(pins) + len(approved) >= MAX_PINNED:
                reasons.append(f"comes after {MAX_PINNED:,} others of its server")
            led = next((one for one in named if one in others), None)
            reasons += [f"says how a tool of another server is to be used ({led})"] if led else []
            entry = {"pin": seal, "definition": dict(definition)}
            if reasons:
                waiting[name] = {**entry, "reasons": reasons}
            elif not is_known:
                approved[name] = {**entry, "named": list(named)}
        if approved or waiting != before:
            with self._writing():
                own = self._of(key)
                own.setdefault("tools", {}).update(approved)
                own["waiting"] = waiting
        return {name: "; ".join(entry["reasons"]) for name, entry in waiting.items()}

    def _reasons(self, was_approved: bool) -> list[str]:
        if was_approved:
            return ["changed since it was approved"]
        return ["is new"] if self._policy == "ask" else []

    def is_led(self, key: str, names: Collection[str]) -> bool:
        """Whether a tool of a server that no person has looked at says how one of these is to be used."""
        tools = self._servers.get(key, {}).get("tools", {})
        return any(one in names for entry in tools.values() for one in entry.get("named", ()))

    def waiting(self, key: str | None = None) -> tuple[Waiting, ...]:
        """What a person is to look at, of one server or of all."""
        self._read_again()
        found = []
        for name, own in sorted(self._servers.items()):
            if key is not None and name != key:
                continue
            identity = own.get("identity", {})
            if "waiting" in identity:
                reasons = ("changed since it was approved",) if "approved" in identity else ("is new",)
                found.append(Waiting(name, "", reasons, identity.get("shown", ""), identity["waiting_shown"]))
            for tool, entry in sorted(own.get("waiting", {}).items()):
                before = own.get("tools", {}).get(tool, {"pin": entry["pin"]})
                is_new = before["pin"] == entry["pin"]  # to people, though policy may have taken it before
                shown = ("" if is_new else _spelled(before["definition"]), _spelled(entry["definition"]))
                found.append(Waiting(name, tool, tuple(entry["reasons"]), *shown))
        return tuple(found)

    def approve(self, key: str, tools: Collection[str] = ()) -> tuple[str, ...]:
        """Approve a server with all that waits of it, or some of its tools; the names of what was approved."""
        self._read_again()
        waits = [one.tool for one in self.waiting(key)]
        unknown = [name for name in tools if name not in waits]
        if unknown or not waits:
            listed = ", ".join(filter(None, waits)) or "nothing"
            raise NotFound(f"{', '.join(unknown) or key} does not wait for approval; of {key} there waits: {listed}")
        with self._writing():
            own = self._of(key)
            identity = own.get("identity", {})
            if not tools and "waiting" in identity:
                own["identity"] = {"approved": identity["waiting"], "shown": identity["waiting_shown"]}
            chosen = [name for name in waits if name and (not tools or name in tools)]
            for name in chosen:
                entry = own["waiting"].pop(name)
                own.setdefault("tools", {})[name] = {"pin": entry["pin"], "definition": entry["definition"]}
        return tuple(chosen) if tools else (key, *chosen)

    def accept_server(self, server: ServerConfig) -> None:
        """Approve a program or address that the user has just named."""
        with self._writing():
            self._of(server.key)["identity"] = {"approved": server.identity, "shown": server.shown}

    def forget(self, key: str) -> None:
        """Forget a server: one of its name that comes later is new."""
        with self._writing():
            self._servers.pop(key, None)

    def _of(self, key: str) -> dict[str, Any]:
        return self._servers.setdefault(key, {})

    def _now(self) -> tuple[int, ...] | None:
        if self._path is None:
            return None
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Change what is there now, whoever wrote it."""
        if self._path is None:
            yield
            return
        from onhand.fsio import FileLock, write_atomic

        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with FileLock(f"{self._path}.lock"):
                self._read_again()
                yield
                write_atomic(self._path, json.dumps({"servers": self._servers}, sort_keys=True).encode())
                self._stamp = self._now()
        except OSError as error:
            why = error.strerror or "another process keeps its lock"
            raise StoreError(f"{self._path} cannot be written ({why}): make its directory writable") from None


def _read(path: str) -> dict[str, dict[str, Any]]:
    """What a file has; a damaged one is an error and never an approval."""
    try:
        with open_regular(path) as file:
            content = json.loads(file.read(MAX_FILE_BYTES))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}): make it readable") from None
    except (ValueError, RecursionError):
        content = None
    servers = content.get("servers") if isinstance(content, dict) else None
    if not isinstance(servers, dict) or not all(_is_whole(own) for own in servers.values()):
        raise StoreError(f"{path} has no list of approvals: repair it, or delete it and approve anew")
    return servers


def _is_whole(own: Any) -> bool:
    if not isinstance(own, dict) or not all(
        isinstance(own.get(part, {}), dict) for part in ("identity", "tools", "waiting")
    ):
        return False
    entries = [*own.get("tools", {}).values(), *own.get("waiting", {}).values()]
    return all(
        isinstance(entry, dict)
        and isinstance(entry.get("pin"), str)
        and "definition" in entry
        and isinstance(entry.get("named", []), list)
        for entry in entries
    )


def _spelled(definition: Any) -> str:
    return json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=True)

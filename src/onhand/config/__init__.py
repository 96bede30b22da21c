"""What did the user ask for? One typed Config: defaults < user file < project file < environment < flags.

A project file may have arrived with a clone. What it says that starts a program, names a secret, leads out of its
directory or allows more than the user does is held back until the user trusts it (`onhand trust`). What the user's own
file, the environment or a flag says is the user's own word and needs no trust.
"""

from __future__ import annotations

import os

from onhand.config.files import File, find, home, read, trust_store, user_file
from onhand.config.options import OPTIONS, SECTIONS, Config, Context, Documents, Option
from onhand.errors import ConfigError
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from onhand.config.values import Layer, Said

__all__ = ["OPTIONS", "REASONS", "Ask", "Config", "Context", "Documents", "Option", "Resolved", "load", "resolve"]

REASONS = {  # why what a project file says needs trust, by the role of the option
    "path": "leads out of the project",
    "program": "starts a program",
    "network": "reaches the network",
    "secret": "uses a secret of yours",
    "grant": "lets a model or a caller do more, or do it without asking you",
    "limit": "leaves out what you forbid",
    "closed": "leaves out what you forbid",
    "opened": "opens what is closed to commands",
    "door": "decides who may connect and how",
    "told": "tells others what you do or ask",
    "model": "chooses who is given what your documents say",
}
PATHS = ("path", "closed", "opened", "door")
LIMITS = ("limit", "closed")  # roles of lists that a project file can make longer, and shorter only with trust
_READ_ONLY = type(type.__dict__)  # types.MappingProxyType, without the import
MAX_SHOWN = 200  # characters of what a warning says was held back; `onhand trust` shows it whole


class Ask(Record):
    """Something that needs the user's trust in the project's directory."""

    key: str
    value: str | tuple[str, ...]  # of a list, the entries that need trust; of a limit, those that it leaves out
    source: str
    reason: str


class Resolved(Record):
    """The value of every option of a table, before it is given its type."""

    values: Mapping[str, object]
    sources: Mapping[str, str]
    project: str
    project_file: str | None
    files: tuple[str, ...]
    asks: tuple[Ask, ...]  # whether they were granted or not
    warnings: tuple[str, ...]


def load(
    start: str | None = None,
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """The configuration for work in `start` (the working directory); a ConfigError names every problem.

    `flags` has values by key, such as {"context.limit": 5}.
    """
    found = resolve(OPTIONS, start, flags=flags, environ=environ)
    sections = {
        name: fields._make(found.values[f"{name}.{field}"] for field in fields._fields)
        for name, fields in SECTIONS.items()
    }
    return Config(
        **sections,
        project=found.project,
        project_file=found.project_file,
        files=found.files,
        sources=_READ_ONLY(dict(found.sources)),
        warnings=found.warnings,
    )


def resolve(
    options: Sequence[Option],
    start: str | None = None,
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Resolved:
    """The same for any table of options: what `load` is made of, and what `onhand trust` shows."""
    environ = os.environ if environ is None else environ
    start = _directory(start)
    warnings: list[str] = []
    user = read(user_file(environ)) if os.path.lexists(user_file(environ)) else None
    found = find(start, environ, warnings)
    project = _project_of(found, start)

    layers = _Layers(options, user, found, environ, flags or {}, warnings)
    asks = _asks(options, project, layers, environ)
    trusted = bool(asks) and _trusts(project, environ, warnings)
    if not trusted:
        _hold_back(options, asks, project, layers, warnings)

    said = layers.merged()
    values = {option.key: option.default for option in options} | {key: it.value for key, it in said.items()}
    for option in options:
        if option.about.role in PATHS:
            allowed = trusted or option.key in said
            base = start if option.key in layers.flags else project
            values[option.key] = _settled(values[option.key], base, project, allowed, environ)
    return Resolved(
        values,
        {option.key: said[option.key].source if option.key in said else "default" for option in options},
        project,
        found.path if found else None,
        tuple(file.path for file in (user, found) if file),
        asks,
        tuple(warnings),
    )


class _Layers:
    """What each source says, checked; made only to be merged."""

    user: Layer
    project: Layer
    environment: Layer
    flags: Layer

    def __init__(
        self,
        options: Sequence[Option],
        user: File | None,
        project: File | None,
        environ: Mapping[str, str],
        flags: Mapping[str, object],
        warnings: list[str],
    ) -> None:
        self.user, self.project, self.environment, self.flags = {}, {}, {}, {}
        names = {name for option in options for name in option.variables}
        spoken = any(name in names or name.startswith("ONHAND_") for name in environ)
        if not (user or project or flags or spoken):
            return  # most runs: nobody said anything, so nothing needs to be checked
        from onhand.config import values

        problems: list[str] = []
        if user:
            self.user = values.from_file(options, user.table, user.place, problems)
        if project:
            self.project = values.from_file(options, project.table, project.place, problems)
        self.environment = values.from_environment(options, environ, problems, warnings)
        self.flags = values.from_flags(options, flags, problems)
        if problems:
            raise ConfigError(_listed(problems, values.MAX_PROBLEMS))

    def own_words(self) -> Layer:
        """What overrides the project file."""
        return {**self.environment, **self.flags}

    def own(self, option: Option) -> Any:
        """What counts without the project file: the user's own word, or the default."""
        return self.user[option.key].value if option.key in self.user else option.default

    def merged(self) -> Layer:
        return {**self.user, **self.project, **self.own_words()}


def _listed(problems: list[str], most: int) -> str:
    if len(problems) == 1:
        return problems[0]
    first = f"the configuration has {len(problems)} problems:"
    if len(problems) >= most:
        first = f"the configuration has many problems, of which these are the first {most}:"
    return "\n  ".join([first, *problems[:most]])


def _directory(start: str | None) -> str:
    try:
        directory = os.path.abspath(start or os.getcwd())
    except FileNotFoundError:
        raise ConfigError("the working directory no longer exists: change to one that does") from None
    if not os.path.isdir(directory):
        raise ConfigError(f"{directory} is not a directory: name the directory of a project")
    return directory


def _project_of(found: File | None, start: str) -> str:
    if found is None:
        return start
    directory, name = os.path.split(found.path)
    return os.path.dirname(directory) if name == "config.toml" else directory


def _asks(options: Sequence[Option], project: str, layers: _Layers, environ: Mapping[str, str]) -> tuple[Ask, ...]:
    """What came with the project and counts: it is not overridden by the user's own words."""
    asks = []
    own_words = layers.own_words()
    for option in options:
        key, role = option.key, option.about.role
        if key in own_words or role in ("value", "inner"):
            continue
        said = layers.project.get(key)
        if role == "path" and (said or key not in layers.user):
            # A default too: the directory of that name may be a link that came with the clone.
            outside = _outside(said.value if said else option.default, project, environ)
            if outside:
                asks.append(Ask(key, outside, said.source if said else "default", f"leads out of {project}"))
        elif said and _is_more(option, said.value, layers.own(option)):
            asks.append(Ask(key, _asked(option, said.value, layers.own(option)), said.source, REASONS[role]))
    return tuple(asks)


def _asked(option: Option, said: Any, own: Any) -> str | tuple[str, ...]:
    """What needs trust, to be shown; of a limit, what it leaves out."""
    if option.about.role in LIMITS:
        return tuple(entry for entry in own if entry not in said)
    return said if isinstance(said, str | tuple) else str(said).lower()


def _is_more(option: Option, said: Any, own: Any) -> bool:
    """Whether a project file says more than what counts without it: the user's own word, or the default."""
    if option.about.role in LIMITS:
        return not set(own) <= set(said)
    if option.about.role == "grant" and option.about.choices:
        return option.about.choices.index(said) > option.about.choices.index(own)
    if option.about.role in ("grant", "opened") and isinstance(said, tuple):
        return not set(said) <= set(own)
    if option.about.role == "grant" and option.kind in ("integer", "number"):
        return bool((said or float("inf")) > (own or float("inf")))  # where 0 can be said, it is no limit
    return said != own and said not in (False, ())


def _trusts(project: str, environ: Mapping[str, str], warnings: list[str]) -> bool:
    from onhand import trust

    try:
        return os.path.realpath(project) in trust.trusted(trust_store(environ))
    except ConfigError as error:
        warnings.append(f"{error}; until then no directory is trusted")
        return False


def _hold_back(
    options: Sequence[Option], asks: tuple[Ask, ...], project: str, layers: _Layers, warnings: list[str]
) -> None:
    """Take what was asked for out of the project's layer; the rest of a list stays, and so does what it forbids."""
    known = {option.key: option for option in options}
    for ask in asks:
        said: Said | None = layers.project.pop(ask.key, None)
        if said and isinstance(said.value, tuple) and isinstance(ask.value, tuple):
            rest = tuple(entry for entry in said.value if entry not in ask.value)
            if known[ask.key].about.role in LIMITS:
                rest = (*ask.value, *rest)
            if rest:
                layers.project[ask.key] = said._replace(value=rest)
        value = ", ".join(map(repr, (ask.value,) if isinstance(ask.value, str) else ask.value))
        shown = value if len(value) <= MAX_SHOWN else value[:MAX_SHOWN] + "…"
        warnings.append(
            f"{ask.source}: {ask.key} ({shown}) is held back because it {ask.reason}; "
            f"if you trust it, run: onhand trust {_quoted(project)}"
        )


def _quoted(path: str) -> str:
    from shlex import quote

    return quote(path)


def _expanded(path: str, environ: Mapping[str, str]) -> str:
    return home(environ) + path[1:] if path == "~" or path.startswith(("~/", "~" + os.sep)) else path


def _outside(value: object, project: str, environ: Mapping[str, str]) -> str | tuple[str, ...]:
    """The path, or those of a list, that lead out of the project once links are followed."""
    if isinstance(value, tuple):
        return tuple(path for path in value if _leads_out(_expanded(path, environ), project))
    return value if isinstance(value, str) and _leads_out(_expanded(value, environ), project) else ""


def _leads_out(path: str, project: str) -> bool:
    base = os.path.realpath(project)
    try:
        return os.path.commonpath([base, os.path.realpath(os.path.join(base, path))]) != base
    except ValueError:  # another drive
        return True


def _settled(value: object, base: str, project: str, allowed: bool, environ: Mapping[str, str]) -> object:
    """Paths as Config promises them: relative to the project, or absolute when allowed to lead out of it."""
    if isinstance(value, tuple):
        return tuple(_settled(path, base, project, allowed, environ) for path in value)
    path = _expanded(str(value), environ)
    real = os.path.realpath(os.path.join(base, path))
    if _leads_out(real, project):
        return real if allowed else value
    plain = not os.path.isabs(path) and ".." not in path.replace("\\", "/").split("/")
    if plain and base == project:
        return value
    return os.path.relpath(real, os.path.realpath(project))

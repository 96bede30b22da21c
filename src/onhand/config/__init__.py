"""The configuration, as one typed Config: defaults < user file < project file < environment < flags.

A project file may have arrived with a clone. Its settings that start a program, name a secret, lead out of its
directory or allow more than the user does are blocked until the user trusts the directory (`onhand trust`). From then
on, the content that was trusted counts instead of the file. The user's own file, the environment and flags need no
trust. All problems are collected and reported at once.
"""

from __future__ import annotations

import os

from onhand.closed_paths import describe_sensitive
from onhand.config.files import File, find, home, read, trust_store, user_file
from onhand.config.settings import (
    SECTIONS,
    SETTINGS,
    Config,
    InvalidValue,
    ProfileSettings,
    Setting,
    profile_settings,
)
from onhand.errors import ConfigError
from onhand.fsio import find_exposed
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from onhand.trust import TrustRecord

__all__ = [
    "REASONS",
    "SECTIONS",
    "SETTINGS",
    "Config",
    "Resolved",
    "Setting",
    "TrustRequest",
    "load",
    "looks_secret",
    "project_around",
    "resolve",
]

REASONS = {  # why a setting of a project file needs trust, by its role
    "path": "leads out of the project",
    "program": "starts a program",
    "confinement": "decides how far commands are confined",
    "program_path": "starts a program",
    "network": "reaches the network",
    "secret": "uses a secret of yours",
    "grant": "lets a model or a caller do more, or do it without asking you",
    "deny": "allows something that you forbid",
    "denied_path": "allows something that you forbid",
    "allowed_path": "opens paths that are closed to commands",
    "access": "decides who may connect and how",
    "disclosure": "tells others what you do or search for",
    "model": "chooses who receives the text of your documents",
}
PATHS = ("path", "denied_path", "allowed_path", "access")
READ_PATHS = ("path", "inside", "program_path")  # what they name may end up in a prompt
DENIALS = ("deny", "denied_path")  # a project file can extend such lists, and shorten them only with trust
PROFILES = "profiles."
MAX_PROFILE_CHARS = 48  # of a name, which becomes a part of addresses and variables
MAX_PROBLEMS = 20  # a file can have thousands, and each suggestion costs a search
MAX_SHOWN_CHARS = 60  # of a value or a key in a message
MAX_BLOCKED_CHARS = 200  # of a blocked value in a warning; `onhand trust` shows all of it
SECRET_WORDS = {"token", "secret", "password", "passwd", "passphrase", "apikey", "credential", "credentials"}
SECRET_ENDS = ("api_key", "access_key", "private_key", "secret_key")
_READ_ONLY = type(type.__dict__)  # types.MappingProxyType, without the import


class TrustRequest(Record):
    """Something in a project's configuration that needs the user's trust in its directory."""

    key: str
    value: str | float | tuple[str, ...]  # of a list, the entries that need trust; of a denial, those that it drops
    source: str
    reason: str
    places: tuple[str, ...] = ()  # of paths that lead out of the project, where to

    def render_values(self) -> list[str]:
        """Return the value as text, or each entry of a list."""
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        return [repr(value) if isinstance(value, str) else str(value).lower() for value in values]


class Resolved(Record):
    """The value of every setting, by key."""

    values: Mapping[str, object]
    sources: Mapping[str, str]
    project: str
    project_file: str | None
    files: tuple[str, ...]
    requests: tuple[TrustRequest, ...]  # granted or not
    settings: Mapping[str, object]  # the content of the project's file that counts
    warnings: tuple[str, ...]

    def to_record(self, servers: Mapping[str, object] | None = None) -> TrustRecord:
        """Return the record of trust in the project's settings and in the content of its server files."""
        from onhand.trust import TrustRecord

        return TrustRecord(
            os.path.realpath(self.project),
            os.path.relpath(self.project_file, self.project) if self.project_file else "",
            self.settings,
            tuple(sorted({place for request in self.requests for place in request.places})),
            servers or {},
        )


class SourcedValue(Record):
    """A value and where it came from."""

    value: Any
    source: str


if TYPE_CHECKING:
    Layer = dict[str, SourcedValue]  # the values of one source, by key


def load(
    start: str | None = None,
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Load the configuration for `start`, by default the working directory; a ConfigError names every problem.

    `flags` has values by key, such as {"context.limit": 5}; None means that a flag was not given.
    """
    resolved = resolve(SETTINGS, start, flags=flags, environ=environ)
    sections = {
        name: fields._make(resolved.values[f"{name}.{field}"] for field in fields._fields)
        for name, fields in SECTIONS.items()
    }
    names = dict.fromkeys(key.split(".")[1] for key in resolved.values if key.startswith(PROFILES))
    profiles = {
        name: ProfileSettings._make(resolved.values[f"{PROFILES}{name}.{field}"] for field in ProfileSettings._fields)
        for name in names
    }
    return Config(
        **sections,
        profiles=_READ_ONLY(profiles),
        project=resolved.project,
        project_file=resolved.project_file,
        files=resolved.files,
        sources=_READ_ONLY(dict(resolved.sources)),
        warnings=resolved.warnings,
    )


def resolve(
    settings: Sequence[Setting],
    start: str | None = None,
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    trusting: bool = False,
) -> Resolved:
    """Return the value of each setting, where it came from, and what needs trust.

    `trusting` takes the project's file as it is now, as if the user trusted all of it.
    """
    environ = os.environ if environ is None else environ
    start = _directory(start)
    warnings: list[str] = []
    user = read(user_file(environ)) if os.path.lexists(user_file(environ)) else None
    records = _Records("" if trusting else trust_store(environ), warnings)
    found = find(start, environ, warnings, records.read)
    project = _project_of(found, start)
    named = _profile_names(user), _profile_names(found)
    settings = (*settings, *(one for name in sorted({*named[0], *named[1]}) for one in profile_settings(name)))

    layers = _Layers(settings, user, found, environ, flags or {}, warnings)
    for file in filter(None, (user, found)):
        if find_exposed(file.path):
            from onhand.trust import describe_exposure, exposure_fix

            warnings.append(describe_exposure(file.path))
            if file is user:
                _block_exposed(settings, project, layers, environ, warnings, exposure_fix(file.path))
    _drop_sensitive(settings, project, layers.project, environ, warnings)
    requests = _requests(settings, project, layers, environ)
    record = records.read(project)
    granted = [request for request in requests if trusting or (record and set(request.places) <= {*record.places})]
    blocked = [request for request in requests if request not in granted]
    _block(settings, blocked, layers.project, warnings, _trust_command(project) if blocked else "")
    settings = _without_blocked_profiles(settings, blocked, named[0])

    known = {setting.key for setting in settings}
    merged = {key: one for key, one in layers.merge().items() if key in known}
    values = {setting.key: setting.default for setting in settings} | {key: one.value for key, one in merged.items()}
    granted_keys = {request.key for request in granted}
    for setting in settings:
        if setting.role in PATHS:
            allowed = setting.key in merged or setting.key in granted_keys
            base = start if setting.key in layers.flags else project
            values[setting.key] = _place(values[setting.key], base, project, allowed, environ)
    return Resolved(
        values,
        {setting.key: merged[setting.key].source if setting.key in merged else "default" for setting in settings},
        project,
        found.path if found else None,
        tuple(file.path for file in (user, found) if file),
        requests,
        found.table if found else {},
        tuple(warnings),
    )


def _profile_names(file: File | None) -> set[str]:
    table = file.table.get("profiles") if file else None
    return set(filter(_is_profile_name, table)) if isinstance(table, dict) else set()


def _is_profile_name(name: str) -> bool:
    is_plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum() and name[0].isalnum()
    return is_plain and len(name) <= MAX_PROFILE_CHARS


def _without_blocked_profiles(
    settings: Sequence[Setting], blocked: Sequence[TrustRequest], own: set[str]
) -> tuple[Setting, ...]:
    """Return the settings without the profiles of a project that need trust: what is left of one would allow more."""
    prefixes = {f"{request.key.rpartition('.')[0]}." for request in blocked if request.key.startswith(PROFILES)}
    prefixes -= {f"{PROFILES}{name}." for name in own}
    return tuple(one for one in settings if not one.key.startswith(tuple(prefixes)))


def project_around(start: str | None = None, *, environ: Mapping[str, str] | None = None) -> str:
    """Return the directory of the project that `start` is in, which need not have its settings file any more."""
    environ = os.environ if environ is None else environ
    start = _directory(start)
    return _project_of(find(start, environ, [], _Records(trust_store(environ), []).read), start)


class _Records:
    """What the user trusts, read where a directory has a record; a damaged record is reported and trusts nothing."""

    def __init__(self, store: str, warnings: list[str]) -> None:
        self._store = store if store and os.path.isdir(store) else ""
        self._warnings = warnings
        self._known: dict[str, TrustRecord | None] = {}

    def read(self, directory: str) -> TrustRecord | None:
        if not self._store:
            return None
        if directory not in self._known:
            from onhand import trust

            try:
                self._known[directory] = trust.read_record(self._store, directory)
            except ConfigError as error:
                self._warnings.append(f"{error}; until then, {directory} is not trusted")
                self._known[directory] = None
        return self._known[directory]


class _Layers:
    """The checked values of each source."""

    user: Layer
    project: Layer
    environment: Layer
    flags: Layer

    def __init__(
        self,
        settings: Sequence[Setting],
        user: File | None,
        project: File | None,
        environ: Mapping[str, str],
        flags: Mapping[str, object],
        warnings: list[str],
    ) -> None:
        self.user, self.project, self.environment, self.flags = {}, {}, {}, {}
        names = {name for setting in settings for name in setting.variables}
        is_in_environment = any(name in names or name.startswith("ONHAND_") for name in environ)
        if not (user or project or flags or is_in_environment):
            return  # as in most runs, there is nothing to check
        problems: list[str] = []
        if user:
            self.user = _read_file(settings, user.table, user.place, problems)
        if project:
            self.project = _read_file(settings, project.table, project.place, problems)
        self.environment = _read_environment(settings, environ, problems, warnings)
        self.flags = _read_flags(settings, flags, problems)
        if problems:
            raise ConfigError(_list_problems(problems))

    def overrides(self) -> Layer:
        """Return the values that override the project file."""
        return {**self.environment, **self.flags}

    def user_value(self, setting: Setting) -> Any:
        """Return the value without the project file: that of the user's file, or the default."""
        return self.user[setting.key].value if setting.key in self.user else setting.default

    def merge(self) -> Layer:
        return {**self.user, **self.project, **self.overrides()}


def _list_problems(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    first = f"the configuration has {len(problems)} problems:"
    if len(problems) >= MAX_PROBLEMS:
        first = f"the configuration has many problems; the first {MAX_PROBLEMS} are:"
    return "\n  ".join([first, *problems[:MAX_PROBLEMS]])


def _directory(start: str | None) -> str:
    try:
        directory = os.path.abspath(start or os.getcwd())
    except FileNotFoundError:
        raise ConfigError("the working directory no longer exists: change to one that does") from None
    if not os.path.isdir(directory):
        raise ConfigError(f"{directory} is not a directory: pass the directory of a project")
    return directory


def _project_of(found: File | None, start: str) -> str:
    if found is None:
        return start
    directory, name = os.path.split(found.path)
    return os.path.dirname(directory) if name == "config.toml" else directory


# Reading each source


def _read_file(
    settings: Sequence[Setting], table: Mapping[str, Any], place: Callable[[str], str], problems: list[str]
) -> Layer:
    """Return the values of a configuration file; `place` returns the file and line of a key."""
    known = {setting.key: setting for setting in settings}
    sections = {*(key.rpartition(".")[0] for key in known), PROFILES[:-1]}
    layer: Layer = {}

    def walk(table: Mapping[str, Any], prefix: str) -> None:
        for name, value in table.items():
            key = prefix + name
            if len(problems) >= MAX_PROBLEMS:
                return
            if "." not in name and key in known:
                _add(layer, known[key], value, place(key), problems)
            elif "." not in name and key in sections:
                if isinstance(value, dict):
                    walk(value, key + ".")
                else:
                    problems.append(f"{place(key)}: {key} is {_show(value)}; expected a table: [{key}]")
            elif prefix == PROFILES:
                problems.append(
                    f"{place(key)}: {_show(name)} cannot name a profile: use up to 48 letters, digits, - and _"
                )
            else:
                problems.append(f"{place(key)}: {_describe_unknown(key, value, [*known, *sections])}")

    walk(table, "")
    return layer


def _read_environment(
    settings: Sequence[Setting], environ: Mapping[str, str], problems: list[str], warnings: list[str]
) -> Layer:
    """Return the values of environment variables; an empty variable counts as not set."""
    layer: Layer = {}
    for setting in settings:
        name = next((name for name in setting.variables if environ.get(name)), "")
        if name:
            _add(layer, setting, setting.parse(environ[name]), f"${name}", problems)
    warnings.extend(_warn_of_variables(settings, environ))
    return layer


def _read_flags(settings: Sequence[Setting], flags: Mapping[str, object], problems: list[str]) -> Layer:
    """Return the values of flags; None means that a flag was not given."""
    known = {setting.key: setting for setting in settings}
    layer: Layer = {}
    for key, value in flags.items():
        source = "--" + key.rpartition(".")[2].replace("_", "-")
        if value is None:
            continue
        if key in known:
            _add(layer, known[key], value, source, problems)
        else:
            problems.append(_describe_unknown(key, value, known))
    return layer


def _add(layer: Layer, setting: Setting, value: object, source: str, problems: list[str]) -> None:
    try:
        layer[setting.key] = SourcedValue(setting.check(value), source)
    except InvalidValue:
        # Someone may have put the secret itself here; it must not reach a terminal or a log.
        shown = "not valid" if setting.role == "secret" else _show(value)
        problems.append(f"{source}: {setting.key} is {shown}; expected {setting.expected}")


def _warn_of_variables(settings: Sequence[Setting], environ: Mapping[str, str]) -> Iterable[str]:
    """Warn about variables that look like misspelt settings; other programs may use similar names."""
    known = {name for setting in settings for name in setting.variables}
    sections = tuple({"ONHAND_" + setting.key.partition(".")[0].upper() + "_" for setting in settings})
    for name in sorted(environ):
        if name.startswith("ONHAND_") and name not in known:
            close = _nearest(name, known, cutoff=0.8)
            if close:
                yield f"${name} is not a setting; did you mean ${close}?"
            elif name.startswith(sections):
                yield f"${name} is not a setting; `onhand config show` lists all settings"


def _describe_unknown(key: str, value: object, known: Iterable[str]) -> str:
    if isinstance(value, str) and looks_secret(key.rpartition(".")[2]):
        return (
            f"{_show(key)} looks like a secret, and secrets are not read from files: "
            f"put it in an environment variable and set {_show(key + '_env')} to the name of that variable"
        )
    what = "section" if isinstance(value, dict) else "key"
    close = _closest(key, known)
    hint = f"did you mean {close!r}?" if close else "`onhand config show` lists all settings"
    return f"unknown {what} {_show(key)}; {hint}"


def looks_secret(name: str) -> bool:
    """Return whether the value of something with this name is probably a secret."""
    name = name.lower().replace("-", "_")
    return bool(SECRET_WORDS & set(name.split("_"))) or name.endswith(SECRET_ENDS)


def _closest(key: str, known: Iterable[str]) -> str:
    """Return the known key that is most similar, by its whole name or by its last part in another section."""
    names = {known_key: known_key for known_key in known}
    last_parts = {known_key.rpartition(".")[2]: known_key for known_key in names}
    whole = key.lower().replace("-", "_")
    for name, among in ((whole, names), (whole.rpartition(".")[2], last_parts)):
        close = _nearest(name, among)
        if close:
            return among[close]
    return ""


def _nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name[:MAX_SHOWN_CHARS], known, n=1, cutoff=cutoff)), "")


def _show(value: object) -> str:
    """Render a value for a message, cut and with control characters escaped."""
    text = repr(value[:MAX_SHOWN_CHARS] if isinstance(value, str) else value)
    return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "…"


# Trust


def _requests(
    settings: Sequence[Setting], project: str, layers: _Layers, environ: Mapping[str, str]
) -> tuple[TrustRequest, ...]:
    """Return the settings of the project file that need trust and that the user does not override."""
    requests = []
    overrides = layers.overrides()
    for setting in settings:
        key, role = setting.key, setting.role
        if key in overrides or role in ("value", "inside"):
            continue
        given = layers.project.get(key)
        if role == "path" and (given or key not in layers.user):
            # The default needs the check too: a directory of that name may be a link that came with the clone.
            outside = _outside(given.value if given else setting.default, project, environ)
            if outside:
                source = given.source if given else "default"
                places = _real_places(outside, project, environ)
                requests.append(TrustRequest(key, outside, source, f"leads out of {project}", places))
        elif given and _is_more(setting, given.value, layers.user_value(setting)):
            value = _part_to_trust(setting, given.value, layers.user_value(setting))
            places = _real_places(value, project, environ) if role in ("allowed_path", "access") else ()
            requests.append(TrustRequest(key, value, given.source, REASONS[role], places))
    return tuple(requests)


def _part_to_trust(setting: Setting, given: Any, own: Any) -> Any:
    """Return the part of a value that needs trust; of a denial, the entries that it drops."""
    return tuple(entry for entry in own if entry not in given) if setting.role in DENIALS else given


def _is_more(setting: Setting, given: Any, own: Any) -> bool:
    """Return whether a project file allows more than the user's own value, or the default, does."""
    if setting.role in DENIALS:
        return not set(own) <= set(given)
    if setting.role == "grant" and setting.choices:
        return setting.choices.index(given) > setting.choices.index(own)
    if setting.role in ("grant", "allowed_path") and isinstance(given, tuple):
        return not set(given) <= set(own)
    if setting.role == "grant" and setting.kind in ("integer", "number"):
        return bool((given or float("inf")) > (own or float("inf")))  # 0 means no limit
    return given != own and given not in (False, ())


def _trust_command(project: str) -> str:
    from shlex import quote

    return f"onhand trust {quote(project)}"


def _block_exposed(
    settings: Sequence[Setting],
    project: str,
    layers: _Layers,
    environ: Mapping[str, str],
    warnings: list[str],
    command: str,
) -> None:
    """Block the settings that would need trust in a project's file, since everyone can change this user's file."""
    strangers = _Layers(settings, None, None, {}, {}, warnings)
    strangers.project = layers.user
    requests = [one for one in _requests(settings, project, strangers, environ) if one.key in layers.user]
    _block(settings, requests, layers.user, warnings, command)


def _block(
    settings: Sequence[Setting], requests: Sequence[TrustRequest], layer: Layer, warnings: list[str], command: str
) -> None:
    """Remove values that need trust from a layer, but keep the other entries of a list, and denials."""
    known = {setting.key: setting for setting in settings} if requests else {}
    for request in requests:
        given = layer.pop(request.key, None)
        if given and isinstance(given.value, tuple) and isinstance(request.value, tuple):
            rest = tuple(entry for entry in given.value if entry not in request.value)
            if known[request.key].role in DENIALS:
                rest = (*request.value, *rest)
            if rest:
                layer[request.key] = given._replace(value=rest)
        value = ", ".join(request.render_values())
        shown = value if len(value) <= MAX_BLOCKED_CHARS else value[:MAX_BLOCKED_CHARS] + "…"
        warnings.append(
            f"{request.source}: {request.key} ({shown}) is ignored because it {request.reason}; "
            f"to allow it, run: {command}"
        )


# Paths


def _drop_sensitive(
    settings: Sequence[Setting], project: str, layer: Layer, environ: Mapping[str, str], warnings: list[str]
) -> None:
    """Remove paths from the project's layer that lead to secrets; not even trust makes a project's file name those."""
    for setting in settings:
        given = layer.get(setting.key) if setting.role in READ_PATHS else None
        if given is None:
            continue
        paths = given.value if isinstance(given.value, tuple) else (given.value,)
        is_inner = setting.role == "inside"
        reasons = {path: _why_sensitive(path, "" if is_inner else project, environ) for path in paths}
        if not any(reasons.values()):
            continue
        del layer[setting.key]
        rest = tuple(path for path in paths if not reasons[path])
        if rest and isinstance(given.value, tuple):
            layer[setting.key] = given._replace(value=rest)
        warnings += [
            f"{given.source}: {setting.key} ({_show(path)}) is ignored because {reason}"
            for path, reason in reasons.items()
            if reason
        ]


def _why_sensitive(path: str, project: str, environ: Mapping[str, str]) -> str:
    """Return why a project's file may not name a path, or "" if it may; without a project, only its names count."""
    expanded = _expand(path, environ)
    reason = "" if os.path.isabs(expanded) else describe_sensitive(expanded)
    if reason or not project:
        return reason
    base = os.path.realpath(project)
    real = os.path.realpath(os.path.join(base, expanded))
    try:
        reason = describe_sensitive(os.path.relpath(real, base))
    except ValueError:  # another drive
        reason = ""
    return reason or ("" if describe_sensitive(base) else describe_sensitive(real))


def _expand(path: str, environ: Mapping[str, str]) -> str:
    return home(environ) + path[1:] if path == "~" or path.startswith(("~/", "~" + os.sep)) else path


def _outside(value: object, project: str, environ: Mapping[str, str]) -> str | tuple[str, ...]:
    """Return the path, or the paths of a list, that lead out of the project after links are resolved."""
    if isinstance(value, tuple):
        return tuple(path for path in value if _leads_out(_expand(path, environ), project))
    return value if isinstance(value, str) and _leads_out(_expand(value, environ), project) else ""


def _real_places(value: str | tuple[str, ...], project: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return where paths lead once links are resolved."""
    paths = (value,) if isinstance(value, str) else value
    return tuple(os.path.realpath(os.path.join(project, _expand(path, environ))) for path in paths)


def _leads_out(path: str, project: str) -> bool:
    base = os.path.realpath(project)
    try:
        return os.path.commonpath([base, os.path.realpath(os.path.join(base, path))]) != base
    except ValueError:  # another drive
        return True


def _place(value: object, base: str, project: str, allowed: bool, environ: Mapping[str, str]) -> object:
    """Return paths relative to the project, or absolute if they are allowed to lead out of it."""
    if isinstance(value, tuple):
        return tuple(_place(path, base, project, allowed, environ) for path in value)
    path = _expand(str(value), environ)
    real = os.path.realpath(os.path.join(base, path))
    if _leads_out(real, project):
        return real if allowed else value
    plain = not os.path.isabs(path) and ".." not in path.replace("\\", "/").split("/")
    if plain and base == project:
        return value
    return os.path.relpath(real, os.path.realpath(project))

"""Is it usable? What a file, the environment or a flag says, checked against the table of options.

Every problem is collected, so that one run shows them all. Nothing here opens a file.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from onhand.config.options import Option

MAX_PROBLEMS = 20  # a file can have thousands; nobody reads more, and each suggestion costs a search
MAX_SHOWN = 60  # characters of a value or a key in a message

SECRET_WORDS = {"token", "secret", "password", "passwd", "passphrase", "apikey", "credential", "credentials"}
SECRET_ENDS = ("api_key", "access_key", "private_key", "secret_key")


class Said(NamedTuple):
    """A value and who said it."""

    value: object
    source: str


Layer = dict[str, Said]


class _Unusable(Exception):
    """A value does not fit its option."""


def from_file(
    options: Sequence[Option], table: Mapping[str, Any], place: Callable[[str], str], problems: list[str]
) -> Layer:
    """What a configuration file says; `place` names the file and the line of a key."""
    known = {option.key: option for option in options}
    sections = {key.rpartition(".")[0] for key in known}
    layer: Layer = {}

    def walk(table: Mapping[str, Any], prefix: str) -> None:
        for name, given in table.items():
            key = prefix + name
            if len(problems) >= MAX_PROBLEMS:
                return
            if "." not in name and key in known:
                _add(layer, known[key], given, place(key), problems)
            elif "." not in name and key in sections:
                if isinstance(given, dict):
                    walk(given, key + ".")
                else:
                    problems.append(f"{place(key)}: {key} is {_shown(given)}; expected a table: [{key}]")
            else:
                problems.append(f"{place(key)}: {_unknown(key, given, [*known, *sections])}")

    walk(table, "")
    return layer


def from_environment(
    options: Sequence[Option], environ: Mapping[str, str], problems: list[str], warnings: list[str]
) -> Layer:
    """What the environment says. An empty variable says nothing."""
    layer: Layer = {}
    for option in options:
        name = next((name for name in option.variables if environ.get(name)), "")
        if name:
            _add(layer, option, _parsed(option, environ[name]), f"${name}", problems)
    warnings.extend(_strange_variables(options, environ))
    return layer


def from_flags(options: Sequence[Option], flags: Mapping[str, object], problems: list[str]) -> Layer:
    """What the command line says. A flag that is None was not given."""
    known = {option.key: option for option in options}
    layer: Layer = {}
    for key, given in flags.items():
        source = "--" + key.rpartition(".")[2].replace("_", "-")
        if given is None:
            continue
        if key in known:
            _add(layer, known[key], given, source, problems)
        else:
            problems.append(f"{source}: {_unknown(key, given, known)}")
    return layer


def _add(layer: Layer, option: Option, given: object, source: str, problems: list[str]) -> None:
    try:
        layer[option.key] = Said(_checked(option, given), source)
    except _Unusable:
        # A secret itself, put where its variable's name belongs, must not reach a terminal or a log.
        shown = "something else" if option.about.role == "secret" else _shown(given)
        problems.append(f"{source}: {option.key} is {shown}; expected {option.expected}")


def _checked(option: Option, given: object) -> object:
    if option.kind == "list":
        if not isinstance(given, list | tuple):
            raise _Unusable
        return tuple(_checked_text(option, entry) for entry in given)
    if option.kind == "text":
        return _checked_text(option, given)
    if option.kind == "boolean":
        fits = isinstance(given, bool)
    elif option.kind == "choice":
        fits = given in option.about.choices
    else:
        fits = _number_fits(option, given)
    if not fits:
        raise _Unusable
    return float(given) if option.kind == "number" else given  # type: ignore[arg-type]  # a number: it fits


def _number_fits(option: Option, given: object) -> bool:
    if isinstance(given, bool) or not isinstance(given, int if option.kind == "integer" else int | float):
        return False
    minimum = option.about.minimum
    return float("-inf") < given < float("inf") and (minimum is None or given >= minimum)  # NaN fails both


def _checked_text(option: Option, given: object) -> str:
    if not isinstance(given, str):
        raise _Unusable
    if not given and option.default == "":
        return given  # there is none, as where nobody says anything
    role = option.about.role
    if role in ("path", "inner", "closed", "opened") and (not given.strip() or "\0" in given):
        raise _Unusable
    if role == "inner" and not _stays_inside(given):
        raise _Unusable
    if role == "secret" and given != option.default and not (given.isascii() and given.isidentifier()):
        raise _Unusable
    return given


def _stays_inside(path: str) -> bool:
    rooted = os.path.isabs(path) or os.path.splitdrive(path)[0] or path.startswith(("/", "\\"))
    return not rooted and ".." not in path.replace("\\", "/").split("/")


def _parsed(option: Option, text: str) -> object:
    """The text of a variable as the option's type; what cannot be read stays text and is then refused."""
    if option.kind == "list":
        return [entry for entry in text.split(os.pathsep) if entry]
    if option.kind == "boolean":
        return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower(), text)
    if option.kind in ("integer", "number"):
        try:
            return int(text) if option.kind == "integer" else float(text)
        except ValueError:
            return text
    return text


def _strange_variables(options: Sequence[Option], environ: Mapping[str, str]) -> Iterable[str]:
    """Warnings about variables that look like ours and are not; other programs may have names like them."""
    known = {name for option in options for name in option.variables}
    sections = tuple({"ONHAND_" + option.key.partition(".")[0].upper() + "_" for option in options})
    for name in sorted(environ):
        if name.startswith("ONHAND_") and name not in known:
            close = _nearest(name, known, cutoff=0.8)
            if close:
                yield f"${name} is not a setting; did you mean ${close}?"
            elif name.startswith(sections):
                yield f"${name} is not a setting; `onhand config show` lists them"


def _unknown(key: str, given: object, known: Iterable[str]) -> str:
    name = key.rpartition(".")[2].lower().replace("-", "_")
    if isinstance(given, str) and (SECRET_WORDS & set(name.split("_")) or name.endswith(SECRET_ENDS)):
        return (
            f"{_shown(key)} looks like a secret and is not read from a file: "
            f"put it into an environment variable and name that variable in {_shown(key + '_env')}"
        )
    what = "section" if isinstance(given, dict) else "key"
    close = _closest(key, known)
    hint = f"did you mean {close!r}?" if close else "`onhand config show` lists what can be set"
    return f"unknown {what} {_shown(key)}; {hint}"


def _closest(key: str, known: Iterable[str]) -> str:
    """The known key that was probably meant: by its whole name, or by its last part in another section."""
    names = {known_key: known_key for known_key in known}
    last_parts = {known_key.rpartition(".")[2]: known_key for known_key in names}
    whole = key.lower().replace("-", "_")
    for wanted, among in ((whole, names), (whole.rpartition(".")[2], last_parts)):
        close = _nearest(wanted, among)
        if close:
            return among[close]
    return ""


def _nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name[:MAX_SHOWN], known, n=1, cutoff=cutoff)), "")


def _shown(given: object) -> str:
    """A value for a message: short, and with control characters spelled out."""
    text = repr(given[:MAX_SHOWN] if isinstance(given, str) else given)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"

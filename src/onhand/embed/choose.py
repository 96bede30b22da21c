"""Which embedder is at hand? From what the caller names to one that is made, but not yet loaded."""

from __future__ import annotations

from onhand.errors import InputError, MissingExtra

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from onhand.embed.embedder import Embedder
    from onhand.embed.http import HttpEmbedder

NAMES = ("auto", "none", "minilm", "gguf", "hashing")
FORMS = "auto, none, minilm, gguf, gguf:PATH, gguf:hf:OWNER/REPOSITORY/FILE.gguf, hashing or https://HOST/v1#MODEL"


def chosen(wanted: Embedder | str | None) -> tuple[Embedder | None, str | None]:
    """The embedder that was asked for, or None and why there is none.

    What is asked for by name and cannot be had is an error; "auto" takes the packaged model if it is installed.
    """
    if wanted is None or wanted == "none":
        return None, None
    if not isinstance(wanted, str):
        return wanted, None
    if wanted == "auto":
        from onhand.embed.minilm import PACKAGES, MiniLmEmbedder

        missing = MissingExtra("search by meaning", "semantic")
        return (MiniLmEmbedder(), None) if _installed(PACKAGES) else (None, str(missing))
    return _named(wanted), None


def _named(wanted: str) -> Embedder:
    if wanted == "minilm":
        from onhand.embed.minilm import PACKAGES, MiniLmEmbedder

        _require(PACKAGES, "the embedder 'minilm'", "semantic")
        return MiniLmEmbedder()
    if wanted == "hashing":
        from onhand.embed.hashing import HashingEmbedder

        return HashingEmbedder()
    if wanted == "gguf" or wanted.startswith("gguf:"):
        from onhand.embed.gguf import DEFAULT_MODEL, GgufEmbedder
        from onhand.embed.llama import PACKAGES

        _require(PACKAGES, "the embedder 'gguf'", "gguf")
        return GgufEmbedder(wanted.partition(":")[2] or DEFAULT_MODEL)
    if wanted.startswith(("http://", "https://")):
        return _endpoint(wanted)
    raise InputError(_unknown(wanted))


def _endpoint(wanted: str) -> HttpEmbedder:
    """From URL#MODEL; `?api_key_env=NAME` in it is for us and not for the endpoint."""
    from urllib.parse import parse_qsl, unquote, urlencode

    from onhand.embed.http import HttpEmbedder
    from onhand.endpoint import accepted_url

    parts = accepted_url(wanted)
    if not parts.fragment:
        raise InputError("say which model the endpoint is to use, after a #: https://HOST/v1#MODEL")
    query = parse_qsl(parts.query, keep_blank_values=True)
    key_names = [value for name, value in query if name == "api_key_env"]
    rest = urlencode([(name, value) for name, value in query if name != "api_key_env"])
    base_url = parts._replace(query=rest, fragment="").geturl()
    return HttpEmbedder(base_url, unquote(parts.fragment), key_names[-1] if key_names else None)


def _installed(packages: Iterable[str]) -> bool:
    """Whether packages can be imported; none of them is."""
    from importlib.util import find_spec

    try:
        return all(find_spec(package) for package in packages)
    except ImportError:  # of somebody's own importer, which forbids instead of not finding
        return False


def _require(packages: Iterable[str], what: str, extra: str) -> None:
    if not _installed(packages):
        raise MissingExtra(what, extra)


def _unknown(wanted: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(wanted[:60].lower(), NAMES, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"use {FORMS}"
    return f"there is no embedder {wanted[:60]!r}; {hint}"

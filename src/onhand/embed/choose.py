"""Choose an embedder by name. Creating one does not load its model."""

from __future__ import annotations

from onhand.errors import InputError, MissingExtra

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from onhand.embed.embedder import Embedder
    from onhand.embed.http import HttpEmbedder

NAMES = ("auto", "none", "minilm", "minilm-fp32", "gguf", "hashing")
FORMS = (
    "auto, none, minilm, minilm-fp32, gguf, gguf:PATH, gguf:hf:OWNER/REPOSITORY/FILE.gguf, hashing or "
    "https://HOST/v1#MODEL"
)


def choose_embedder(choice: Embedder | str | None) -> tuple[Embedder | None, str | None]:
    """Return the chosen embedder, or None and why there is none.

    One that is named but not available is an error; "auto" is the packaged model if it is installed.
    """
    if choice is None or choice == "none":
        return None, None
    if not isinstance(choice, str):
        return choice, None
    if choice == "auto":
        from onhand.embed.minilm import MINILM_PACKAGES, MiniLmEmbedder

        missing = MissingExtra("search by meaning", "semantic")
        return (MiniLmEmbedder(), None) if _is_installed(MINILM_PACKAGES) else (None, str(missing))
    return _embedder_by_name(choice), None


def _embedder_by_name(choice: str) -> Embedder:
    if choice in ("minilm", "minilm-fp32"):
        from onhand.embed.minilm import MINILM_PACKAGES, MiniLmEmbedder

        _require(MINILM_PACKAGES, f"the embedder {choice!r}", "semantic")
        return MiniLmEmbedder(as_integers=None if choice == "minilm" else False)
    if choice == "hashing":
        from onhand.embed.embedder import HashingEmbedder

        return HashingEmbedder()
    if choice == "gguf" or choice.startswith("gguf:"):
        from onhand.embed.gguf import DEFAULT_MODEL, LLAMA_PACKAGES, GgufEmbedder

        _require(LLAMA_PACKAGES, "the embedder 'gguf'", "gguf")
        return GgufEmbedder(choice.partition(":")[2] or DEFAULT_MODEL)
    if choice.startswith(("http://", "https://")):
        return _endpoint(choice)
    raise InputError(_unknown(choice))


def _endpoint(choice: str) -> HttpEmbedder:
    """Parse URL#MODEL; `?api_key_env=NAME` in it is for us, not for the endpoint."""
    from urllib.parse import parse_qsl, unquote, urlencode

    from onhand.embed.http import HttpEmbedder
    from onhand.http_client import parse_url

    parts = parse_url(choice)
    if not parts.fragment:
        raise InputError("name the model after a #: https://HOST/v1#MODEL")
    query = parse_qsl(parts.query, keep_blank_values=True)
    key_names = [value for name, value in query if name == "api_key_env"]
    rest = urlencode([(name, value) for name, value in query if name != "api_key_env"])
    base_url = parts._replace(query=rest, fragment="").geturl()
    return HttpEmbedder(base_url, unquote(parts.fragment), key_names[-1] if key_names else None)


def _is_installed(packages: Iterable[str]) -> bool:
    """Return whether packages can be imported, without importing them."""
    from importlib.util import find_spec

    try:
        return all(find_spec(package) for package in packages)
    except ImportError:  # raised by custom importers that forbid a package
        return False


def _require(packages: Iterable[str], what: str, extra: str) -> None:
    if not _is_installed(packages):
        raise MissingExtra(what, extra)


def _unknown(choice: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(choice[:60].lower(), NAMES, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"use {FORMS}"
    return f"there is no embedder {choice[:60]!r}; {hint}"

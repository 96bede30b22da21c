"""Choose an embedder by name. Creating one does not load its model."""

from __future__ import annotations

from onhand.errors import InputError, MissingExtra

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    from onhand.embed.embedder import Embedder
    from onhand.embed.http import HttpEmbedder
    from onhand.embed.hub import Progress
    from onhand.embed.models import KnownModel

    OnDownload: TypeAlias = Callable[[str, int, int | None], object]

OTHERS = ("auto", "none", "minilm-fp32", "gguf", "hashing")  # besides the names of models
FORMS = "NAME:PATH, gguf:PATH, gguf:hf:OWNER/REPOSITORY/FILE.gguf, minilm-fp32, hashing or https://HOST/v1#MODEL"


def choose_embedder(
    choice: Embedder | str | None, on_download: OnDownload | None = None
) -> tuple[Embedder | None, str | None]:
    """Return the chosen embedder, or None and why there is none.

    One that is named but not available is an error; "auto" is the packaged model if it is installed. `on_download` gets
    the name of a model that is being downloaded, the bytes so far and, if known, the total.
    """
    if choice is None or choice == "none":
        return None, None
    if not isinstance(choice, str):
        return choice, None
    if choice == "auto":
        from onhand.embed.minilm import MINILM_PACKAGES, MiniLmEmbedder

        missing = MissingExtra("search by meaning", "semantic")
        return (MiniLmEmbedder(), None) if _is_installed(MINILM_PACKAGES) else (None, str(missing))
    return _embedder_by_name(choice, on_download), None


def _embedder_by_name(choice: str, on_download: OnDownload | None) -> Embedder:
    if choice in ("minilm", "minilm-fp32"):
        from onhand.embed.minilm import MINILM_PACKAGES, MiniLmEmbedder

        _require(MINILM_PACKAGES, f"the embedder {choice!r}", "semantic")
        return MiniLmEmbedder(as_integers=None if choice == "minilm" else False)
    if choice == "hashing":
        from onhand.embed.embedder import HashingEmbedder

        return HashingEmbedder()
    if choice.startswith(("http://", "https://")):
        return _endpoint(choice)
    name, _, path = choice.partition(":")
    if name == "gguf":
        return _gguf(path or None, None, on_download)
    from onhand.embed.models import MODELS

    model = MODELS.get(name)
    if model is None or model.file is None or (":" in choice and not path):
        raise InputError(_unknown(choice))
    return _gguf(path or None, model, on_download) if model.runtime == "gguf" else _bge(path or None, on_download)


def _gguf(path: str | None, model: KnownModel | None, on_download: OnDownload | None) -> Embedder:
    from onhand.embed.gguf import DEFAULT_MODEL, HUB_PREFIX, LLAMA_PACKAGES, GgufEmbedder

    _require(LLAMA_PACKAGES, f"the embedder {model.name if model else 'gguf'!r}", "gguf")
    if model is None or model.file is None:
        return GgufEmbedder(path or DEFAULT_MODEL, on_progress=_report(path or DEFAULT_MODEL, on_download))
    where = path or HUB_PREFIX + model.file.address
    return GgufEmbedder(where, model.dimension, model.prompts, on_progress=_report(model.name, on_download))


def _bge(path: str | None, on_download: OnDownload | None) -> Embedder:
    from onhand.embed.bge import BGE_PACKAGES, BgeEmbedder

    _require(BGE_PACKAGES, "the embedder 'bge-small'", "semantic")
    return BgeEmbedder(path, on_progress=_report("bge-small", on_download))


def _report(name: str, on_download: OnDownload | None) -> Progress | None:
    return None if on_download is None else lambda done, total: on_download(name, done, total)


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

    from onhand.embed.models import MODELS

    close = get_close_matches(choice[:60].partition(":")[0].lower(), (*MODELS, *OTHERS), n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"use auto, none, {', '.join(MODELS)}, {FORMS}"
    return f"there is no embedder {choice[:60]!r}; {hint}"

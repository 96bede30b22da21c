"""Which model was asked for? From its name to one that is made, but not yet asked anything."""

from typing import Any

from onhand.agent.models.model import Model
from onhand.errors import InputError, ModelError

FORMS = "anthropic:NAME, openai:NAME, gguf:PATH, gguf:hf:OWNER/REPOSITORY/FILE.gguf or scripted:FILE"
NOT_SET = """no model is set, so there is nobody to ask. Name one with --model, with ONHAND_AGENT_MODEL, or in a file:

  a model of Anthropic     onhand agent --model anthropic:MODEL     its key in ANTHROPIC_API_KEY
  a model of OpenAI        onhand agent --model openai:MODEL        its key in OPENAI_API_KEY
  a server on this machine onhand agent --model openai:MODEL --base-url http://localhost:11434/v1
                           (Ollama; llama.cpp and vLLM have their own ports)
  a file in this process   onhand agent --model gguf:PATH           needs: pip install 'onhand[gguf]'

To keep it, write into the file that `onhand init` makes, or into the user's own:

  [agent]
  model = "anthropic:MODEL"
  api_key_env = "ANTHROPIC_API_KEY"  # the name of the variable; the key itself is in no file"""


def model_of(name: str, base_url: str = "", api_key_env: str = "", max_output_tokens: int = 0) -> Model:
    """The model of a name. A provider's own key goes to its own address only; any other address needs api_key_env."""
    kind, _, which = name.partition(":")
    if not name:
        raise ModelError(NOT_SET)
    if not which or kind not in ("anthropic", "openai", "gguf", "scripted"):
        raise InputError(f"there is no model {name[:100]!r}: use {FORMS}")
    limit: dict[str, Any] = {"max_output_tokens": max_output_tokens} if max_output_tokens else {}
    if kind == "gguf":
        from onhand.agent.models.gguf import GgufModel

        return GgufModel(which, **limit)
    if kind == "scripted":
        from onhand.agent.models.scripted import read_script

        return read_script(which)
    return _remote(kind, which, base_url, api_key_env or None, limit)


def host_and_key(name: str, base_url: str = "", api_key_env: str = "") -> tuple[str, str]:
    """Where a model is reached over the network, and the variable with its key; empty for one that is not."""
    from urllib.parse import urlsplit

    kind = name.partition(":")[0]
    if kind not in ("anthropic", "openai"):
        return "", ""
    from onhand.agent.models import anthropic, openai

    usual = anthropic if kind == "anthropic" else openai
    key = api_key_env or ("" if base_url else usual.API_KEY_ENV)
    return urlsplit(base_url or usual.BASE_URL).hostname or "", key


def _remote(kind: str, which: str, base_url: str, api_key_env: str | None, limit: dict[str, Any]) -> Model:
    if kind == "anthropic":
        from onhand.agent.models import anthropic

        at = base_url or anthropic.BASE_URL
        key = api_key_env or (None if base_url else anthropic.API_KEY_ENV)
        return anthropic.AnthropicModel(which, at, key, **limit)
    from onhand.agent.models import openai

    at = base_url or openai.BASE_URL
    key = api_key_env or (None if base_url else openai.API_KEY_ENV)
    return openai.OpenAiModel(which, at, key, **limit)

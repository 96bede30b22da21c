"""Models by name: providers over HTTP, GGUF files and scripts. Creating a model sends no request."""

from typing import Any
from urllib.parse import urlsplit

from onhand.agent.models import anthropic, openai
from onhand.agent.models.anthropic import AnthropicModel
from onhand.agent.models.gguf import GgufModel
from onhand.agent.models.model import Model
from onhand.agent.models.openai import OpenAiModel
from onhand.agent.models.scripted import read_script
from onhand.errors import InputError, ModelError

FORMS = "anthropic:NAME, openai:NAME, gguf:PATH, gguf:hf:OWNER/REPOSITORY/FILE.gguf or scripted:FILE"
NOT_SET = """no model is set. Choose one with --model, with ONHAND_AGENT_MODEL, or in a configuration file:

  an Anthropic model       onhand agent --model anthropic:MODEL     its key in ANTHROPIC_API_KEY
  an OpenAI model          onhand agent --model openai:MODEL        its key in OPENAI_API_KEY
  a server on this machine onhand agent --model openai:MODEL --base-url http://localhost:11434/v1
                           (Ollama; llama.cpp and vLLM have their own ports)
  a file in this process   onhand agent --model gguf:PATH           needs: pip install 'onhand[gguf]'

To make it permanent, add this to the file that `onhand init` creates, or to your user configuration:

  [agent]
  model = "anthropic:MODEL"
  api_key_env = "ANTHROPIC_API_KEY"  # the name of the variable, never the key itself"""


def choose_model(name: str, base_url: str = "", api_key_env: str = "", max_output_tokens: int = 0) -> Model:
    """Return the model with this name.

    A provider's default key is sent only to that provider's own address; any other address needs `api_key_env`.
    """
    kind, _, which = name.partition(":")
    if not name:
        raise ModelError(NOT_SET)
    if not which or kind not in ("anthropic", "openai", "gguf", "scripted"):
        raise InputError(f"unknown model {name[:100]!r}: use {FORMS}")
    limit: dict[str, Any] = {"max_output_tokens": max_output_tokens} if max_output_tokens else {}
    if kind == "gguf":
        return GgufModel(which, **limit)
    if kind == "scripted":
        return read_script(which)
    provider = anthropic if kind == "anthropic" else openai
    address = base_url or provider.BASE_URL
    key = api_key_env or (None if base_url else provider.API_KEY_ENV)
    model = AnthropicModel if kind == "anthropic" else OpenAiModel
    return model(which, address, key, **limit)


def host_and_key(name: str, base_url: str = "", api_key_env: str = "") -> tuple[str, str]:
    """Return the host of a remote model and the name of its key variable, or two empty strings for a local model."""
    kind = name.partition(":")[0]
    if kind not in ("anthropic", "openai"):
        return "", ""
    provider = anthropic if kind == "anthropic" else openai
    key = api_key_env or ("" if base_url else provider.API_KEY_ENV)
    return urlsplit(base_url or provider.BASE_URL).hostname or "", key

"""A model file with the inputs and the output of BERT, so small that a test can write it: nothing in it is trained."""

import hashlib
from array import array
from math import sin
from pathlib import Path

from onhand.embed.bge import BGE
from onhand.embed.hub import HubFile
from onhand.embed.minilm import WordPiece, read_vocabulary
from onhand.embed.minilm_graph import FLOAT, INT64, _attribute, _field, _value
from onhand.embed.models import KnownModel

SCALES = (0.1, 0.7, 1.3, 0.02)
MAX_TOKENS = 64


def _node(operator: str, inputs: list[str], output: str, **attributes: int | tuple[int, ...]) -> bytes:
    names = b"".join(_field(1, name) for name in inputs) + _field(2, output) + _field(4, operator)
    return _field(1, names + b"".join(_field(5, _attribute(name, value)) for name, value in attributes.items()))


def _constant(name: str, kind: int, dims: int, content: bytes) -> bytes:
    return _field(5, _field(1, dims) + _field(2, kind) + _field(8, name) + _field(9, content))


def _model() -> bytes:
    """The state of a token is sin(id · scales), to which the mean of all tokens is added."""
    graph = (
        _node("Cast", ["input_ids"], "ids", to=FLOAT)
        + _node("Unsqueeze", ["ids", "last"], "column")
        + _node("Mul", ["column", "scales"], "product")
        + _node("Sin", ["product"], "own")
        + _node("ReduceMean", ["own"], "mean", axes=(1,), keepdims=1)
        + _node("Add", ["own", "mean"], "last_hidden_state")
        + _field(2, "tiny")
        + _constant("last", INT64, 1, array("q", [2]).tobytes())
        + _constant("scales", FLOAT, len(SCALES), array("f", SCALES).tobytes())
        + b"".join(
            _field(11, _value(name, INT64, 1, "tokens")) for name in ("input_ids", "attention_mask", "token_type_ids")
        )
        + _field(12, _value("last_hidden_state", FLOAT, 1, "tokens", len(SCALES)))
    )
    return _field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, 17))


WEIGHTS = _model()
FILE = HubFile(
    "owner/tiny",
    "onnx/model.onnx",
    "some-revision",
    hashlib.sha256(WEIGHTS).hexdigest(),
    len(WEIGHTS),
    chosen_by="bge-small",
)
TINY = KnownModel("bge-small", "onnx", FILE, BGE.prompts, len(SCALES), "cls", MAX_TOKENS, "none")


def write(path: Path) -> str:
    """Write the model, and return its path."""
    path.write_bytes(WEIGHTS)
    return str(path)


def first_state(text: str) -> list[float]:
    """What the model computes for the first token of a text."""
    states = [[sin(id * scale) for scale in SCALES] for id in WordPiece(read_vocabulary()).ids(text, MAX_TOKENS)]
    means = [sum(column) / len(states) for column in zip(*states, strict=True)]
    return [own + mean for own, mean in zip(states[0], means, strict=True)]

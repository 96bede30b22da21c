"""Write the computation of all-MiniLM-L6-v2 as an ONNX graph over the weights in the packaged file.

The file stores its weights as int8, but its own graph converts them to floats and multiplies those. Here they are
multiplied as integers, which takes a third of the time. Only the graph is new: the int8 tensors remain where they are,
as ranges of bytes of the same verified file, and are not requantized. ONNX is a protobuf format of which this needs
five kinds of messages, so they are read and written here instead of adding a dependency.
"""

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

LAYERS, HEADS, DIMENSION = 6, 12, 384
MATRICES_PER_LAYER = 6  # query, key, value, attention output, up, down; in the order in which the file uses them
EPSILON = 1e-12  # of the layer normalization
IR_VERSION, OPSET, MICROSOFT_OPSET = 8, 17, 1
FLOAT, INT8, INT64 = 1, 3, 7  # TensorProto.DataType
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE, _INTS_ATTRIBUTE = 1, 2, 7  # AttributeProto.AttributeType
_EXTERNAL = 1  # TensorProto.DataLocation


class _Tensor(NamedTuple):
    """A tensor that the file contains."""

    kind: int
    dims: tuple[int, ...]
    offset: int
    size: int


def write_graph(path: str, as_integers: bool) -> bytes:
    """Return a model that maps `input_ids` [1, tokens] to a unit `vector` [1, 384] over the weights at `path`.

    It refers to the file by its name, so the session must look for external data in its directory.
    """
    graph = _GraphWriter(path, as_integers)
    word, position, kind = (f"inner.embeddings.{one}_embeddings.weight" for one in ("word", "position", "token_type"))
    zero, one = graph.integers("zero", 0), graph.integers("one", 1)
    length = graph.node("Shape", "input_ids", start=1, end=2)
    words = graph.scaled(word, "Gather", "input_ids")
    positions = graph.scaled(position, "Slice", zero, length)
    kinds = graph.node("Slice", graph.stored(kind), zero, one)
    states = graph.normalized(
        graph.node("Add", graph.node("Add", words, positions), kinds), "inner.embeddings.LayerNorm"
    )
    for layer in range(LAYERS):
        name = f"inner.encoder.layer.{layer}."
        first = layer * MATRICES_PER_LAYER
        query, key, value, output, up, down = graph.matrices[first : first + MATRICES_PER_LAYER]
        read = graph.quantized(states)
        attended = graph.node(
            "MultiHeadAttention",
            graph.dense(read, query, f"{name}attention.self.query.bias"),
            graph.dense(read, key, f"{name}attention.self.key.bias"),
            graph.dense(read, value, f"{name}attention.self.value.bias"),
            is_microsoft=True,
            num_heads=HEADS,
        )
        mixed = graph.dense(graph.quantized(attended), output, f"{name}attention.output.dense.bias")
        states = graph.normalized(graph.node("Add", mixed, states), f"{name}attention.output.LayerNorm")
        wide = graph.dense(graph.quantized(states), up, f"{name}intermediate.dense.bias")
        wide = graph.node("Gelu", wide, is_microsoft=True)
        narrow = graph.dense(graph.quantized(wide), down, f"{name}output.dense.bias")
        states = graph.normalized(graph.node("Add", narrow, states), f"{name}output.LayerNorm")
    mean = graph.node("ReduceMean", states, axes=(1,), keepdims=0)
    graph.node("LpNormalization", mean, output="vector", axis=-1, p=2)
    return graph.serialize()


class _GraphWriter:
    """Collects the nodes of a graph and the tensors that they use."""

    def __init__(self, path: str, as_integers: bool) -> None:
        self._path = path
        self._as_integers = as_integers
        self._tensors, self.matrices = _read_model(path)
        self._nodes: list[bytes] = []
        self._initializers: dict[str, bytes] = {}

    def stored(self, name: str, dims: Sequence[int] | None = None) -> str:
        """Use a tensor of the file. Floats are copied, 0.3 MB in all, because they are not aligned in the file."""
        tensor = self._tensors[name]
        head = b"".join(_field(1, size) for size in dims or tensor.dims) + _field(2, tensor.kind) + _field(8, name)
        if tensor.kind == FLOAT:
            with open(self._path, "rb") as file:
                file.seek(tensor.offset)
                self._initializers[name] = head + _field(9, file.read(tensor.size))
        else:
            place = {"location": os.path.basename(self._path), "offset": tensor.offset, "length": tensor.size}
            entries = (_field(13, _field(1, key) + _field(2, str(value))) for key, value in place.items())
            self._initializers[name] = head + _field(14, _EXTERNAL) + b"".join(entries)
        return name

    def integers(self, name: str, *values: int) -> str:
        """Add a constant list of integers."""
        content = struct.pack(f"<{len(values)}q", *values)
        self._initializers[name] = _field(1, len(values)) + _field(2, INT64) + _field(8, name) + _field(9, content)
        return name

    def node(
        self,
        operator: str,
        *inputs: str,
        output: str = "",
        is_microsoft: bool = False,
        **attributes: float | Sequence[int],
    ) -> str:
        """Add an operator, one of ONNX or of onnxruntime's own, and return the name of its first output."""
        output = output or f"{operator}{len(self._nodes)}"
        outputs = (output, f"{output}.scale", f"{output}.zero") if operator == "DynamicQuantizeLinear" else (output,)
        self._nodes.append(
            b"".join(_field(1, name) for name in inputs)
            + b"".join(_field(2, name) for name in outputs)
            + _field(4, operator)
            + b"".join(_field(5, _attribute(name, value)) for name, value in attributes.items())
            + (_field(7, "com.microsoft") if is_microsoft else b"")
        )
        return output

    def scaled(self, name: str, selection: str, *where: str) -> str:
        """Select rows of an int8 table and multiply each by its scale, so that no table of floats is made."""
        rows = self.node("Cast", self.node(selection, self.stored(f"{name}_q"), *where), to=FLOAT)
        return self.node("Mul", rows, self.node(selection, self.stored(f"{name}_scale"), *where))

    def quantized(self, states: str) -> str:
        """Quantize the input of matrix products by its own range."""
        return self.node("DynamicQuantizeLinear", states) if self._as_integers else states

    def dense(self, states: str, matrix: str, bias: str) -> str:
        """Multiply what `quantized` returned by a matrix with a scale for each column, and add a bias."""
        weights, scale = self.stored(f"{matrix}_q"), f"{matrix}_scale"
        scales = self.stored(scale, self._tensors[scale].dims[-1:])
        if self._as_integers:
            inputs = (states, weights, f"{states}.scale", scales, f"{states}.zero", "", self.stored(bias))
            return self.node("MatMulIntegerToFloat", *inputs, is_microsoft=True)
        floats = self.node("Mul", self.node("Cast", weights, to=FLOAT), scales)
        return self.node("Add", self.node("MatMul", states, floats), self.stored(bias))

    def normalized(self, states: str, name: str) -> str:
        """Add a layer normalization."""
        weight, bias = self.stored(f"{name}.weight"), self.stored(f"{name}.bias")
        return self.node("LayerNormalization", states, weight, bias, axis=-1, epsilon=EPSILON)

    def serialize(self) -> bytes:
        """Return the model."""
        graph = (
            b"".join(_field(1, node) for node in self._nodes)
            + _field(2, "all-MiniLM-L6-v2")
            + b"".join(_field(5, tensor) for tensor in self._initializers.values())
            + _field(11, _value("input_ids", INT64, 1, "tokens"))
            + _field(12, _value("vector", FLOAT, 1, DIMENSION))
        )
        opsets = (("", OPSET), ("com.microsoft", MICROSOFT_OPSET))
        imports = b"".join(_field(8, _field(1, domain) + _field(2, version)) for domain, version in opsets)
        return _field(1, IR_VERSION) + _field(7, graph) + imports


def _read_model(path: str) -> tuple[dict[str, _Tensor], list[str]]:
    """Return the tensors in a model file, and the names of its int8 matrices in the order of their use."""
    tensors: dict[str, _Tensor] = {}
    multiplied: list[str] = []
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for model_field, graph_start, graph_end in _read_fields(data, 0, len(data)):
            if model_field != 7:
                continue
            for graph_field, start, end in _read_fields(data, graph_start, graph_end):
                if graph_field == 5:
                    name, tensor = _read_tensor(data, start, end)
                    tensors[name] = tensor
                elif graph_field == 1:
                    fields = list(_read_fields(data, start, end))
                    if any(number == 4 and data[a:b] == b"MatMul" for number, a, b in fields):
                        multiplied.append([data[a:b].decode() for number, a, b in fields if number == 1][1])
    return tensors, [name for name in multiplied if f"{name}_q" in tensors]


def _read_tensor(data: mmap.mmap, start: int, end: int) -> tuple[str, _Tensor]:
    name, kind, dims, place, size = "", 0, [], 0, 0
    for number, value, value_end in _read_fields(data, start, end):
        if number == 1:
            dims.append(value)
        elif number == 2:
            kind = value
        elif number == 8:
            name = data[value:value_end].decode()
        elif number == 9:
            place, size = value, value_end - value
    return name, _Tensor(kind, tuple(dims), place, size)


def _read_fields(data: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number of each field of a message, with where its content starts and ends, or its value and 0."""
    while at < end:
        tag, at = _read_varint(data, at)
        value, at = _read_varint(data, at)
        if tag & 7 == 2:
            yield tag >> 3, at, at + value
            at += value
        elif tag & 7 == 0:
            yield tag >> 3, value, 0
        else:
            raise ValueError(f"the model has a field of type {tag & 7}")


def _read_varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _varint(value: int) -> bytes:
    content = bytearray()
    value &= (1 << 64) - 1
    while value > 127:
        content.append(value & 127 | 128)
        value >>= 7
    return bytes([*content, value])


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _attribute(name: str, value: float | Sequence[int]) -> bytes:
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, _INT_ATTRIBUTE)
    if isinstance(value, float):
        return _field(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _field(20, _FLOAT_ATTRIBUTE)
    return _field(1, name) + b"".join(_field(8, one) for one in value) + _field(20, _INTS_ATTRIBUTE)


def _value(name: str, kind: int, *dims: int | str) -> bytes:
    """Describe an input or output of the graph."""
    shape = b"".join(_field(1, _field(1 if isinstance(size, int) else 2, size)) for size in dims)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))

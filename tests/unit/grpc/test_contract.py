"""The contract stays compatible, and the generated code is current."""

import re
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from docs import contract
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from onhand.grpc import search_pb2 as wire
from requirements import requirement

ROOT = Path(__file__).parents[3]
PROTO = ROOT / "proto" / "onhand" / "search" / "v1" / "search.proto"
GENERATED = ROOT / "src" / "onhand" / "grpc" / "search_pb2.py"

# What was there first: number, name and type of each field. None of it may ever change.
FIRST = {
    "Filter": ["1 author []", "2 tags []", "3 created_after time", "4 created_before time", "5 scope []"],
    "KeywordSearchRequest": ["1 query", "2 filter Filter", "3 limit int32"],
    "SemanticSearchRequest": ["1 query", "2 filter Filter", "3 limit int32", "4 min_score float"],
    "FilterRequest": ["1 filter Filter", "2 limit int32", "3 order_by"],
    "SearchResponse": ["1 hits SearchHit []"],
    "SearchHit": ["1 document_id", "2 title", "3 snippet", "4 score float", "5 author", "6 created_time time"],
}
METHODS = {
    "KeywordSearch": ("KeywordSearchRequest", "SearchResponse"),
    "SemanticSearch": ("SemanticSearchRequest", "SearchResponse"),
    "FilterDocuments": ("FilterRequest", "SearchResponse"),
}
_TYPES = {2: " float", 5: " int32", 9: ""}


def described(message: str) -> list[str]:
    rows = []
    for field in wire.DESCRIPTOR.message_types_by_name[message].fields:
        named = field.message_type.name if field.message_type else ""
        kind = {"": _TYPES.get(field.type, "?"), "Timestamp": " time"}.get(named, f" {named}")
        rows.append(f"{field.number} {field.name}{kind}{' []' if field.is_repeated else ''}")
    return rows


@requirement("grpc.wire-compatible")
@pytest.mark.parametrize("message", FIRST)
def test_the_founding_fields_keep_their_names_numbers_and_types(message: str) -> None:
    assert described(message)[: len(FIRST[message])] == FIRST[message]


@requirement("grpc.wire-compatible", "grpc.three-calls", "grpc.added-calls")
def test_the_founding_methods_come_first() -> None:
    assert wire.DESCRIPTOR.package == "search.v1"
    methods = wire.DESCRIPTOR.services_by_name["SearchService"].methods
    assert {m.name: (m.input_type.name, m.output_type.name) for m in methods[:3]} == METHODS
    assert [method.name for method in methods[3:]] == ["FusedSearch", "GetDocument"]


@requirement("grpc.hides-backends")
def test_the_contract_names_no_backend_and_no_path() -> None:
    text = PROTO.read_text(encoding="utf-8").lower()
    found = [
        word for word in ("sqlite", "fts", "postgres", "numpy", "onnx", "minilm", "python", "_path") if word in text
    ]
    assert found == []


@requirement("grpc.generated-code-is-current")
def test_the_generated_code_matches_the_contract(tmp_path: Path) -> None:
    made = tmp_path / "set.bin"
    command = ["-I", f"onhand/grpc={PROTO.parent}", f"--descriptor_set_out={made}", "onhand/grpc/search.proto"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *command], check=True, timeout=110)
    (now,) = FileDescriptorSet.FromString(made.read_bytes()).file
    committed = FileDescriptorProto.FromString(wire.DESCRIPTOR.serialized_pb)
    now.ClearField("source_code_info")
    for message in now.message_type:  # compilers add the names that JSON would use
        for field in message.field:
            field.ClearField("json_name")
        for nested in message.nested_type:
            for field in nested.field:
                field.ClearField("json_name")
    assert now == committed, "run `make proto`"


@requirement("grpc.generated-code-is-current")
def test_the_generated_code_works_with_the_oldest_supported_packages() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (floor,) = (
        re.fullmatch(r"protobuf>=([\d.]+)", package) for package in extras["grpc"] if package.startswith("protobuf")
    )
    made_for = re.search(r"^# Protobuf Python Version: ([\d.]+)$", GENERATED.read_text(encoding="utf-8"), re.MULTILINE)
    assert floor
    assert made_for
    assert floor[1] == made_for[1]


def test_every_message_and_method_of_the_contract_is_documented() -> None:
    lines = PROTO.read_text(encoding="utf-8").splitlines()
    bare = [
        line
        for before, line in pairwise(lines)
        if re.match(r"(service|  rpc) ", line) and not before.strip().startswith("//")
    ]
    assert bare == []


@requirement("grpc.reference")
def test_the_reference_documents_every_method_and_field() -> None:
    page = contract.page()
    _, *parts = re.split(r"^## ", page, flags=re.MULTILINE)
    sections = {part.partition("\n")[0]: part for part in parts}
    services, messages = wire.DESCRIPTOR.services_by_name, wire.DESCRIPTOR.message_types_by_name
    assert list(sections) == [*services, *messages]
    for name, service in services.items():
        assert re.findall(r"^### (.+)$", sections[name], re.MULTILINE) == [method.name for method in service.methods]
    for name, message in messages.items():
        rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", sections[name], re.MULTILINE)
        assert rows == [(str(field.number), field.name) for field in message.fields]
    limit = "| 3 | `limit` | int32 | The maximum number of hits on a page: 10 if not set, at most 50. |"
    assert limit in sections["KeywordSearchRequest"]
    assert "| 3 | `embedder` | map of string to string |" in sections["GetStatsResponse"]
    assert "Request: a stream of [PutDocumentsRequest](#putdocumentsrequest)" in sections["WriteService"]

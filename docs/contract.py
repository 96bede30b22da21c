"""What can be said over gRPC? The contract as a page, from its descriptor and the comments that stand in it."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

ROOT = Path(__file__).parents[1]
FOLDER, NAME = "proto/onhand/search/v1", "search.proto"
MESSAGES, SERVICES, PARTS = 4, 6, 2  # numbers of fields of FileDescriptorProto, and of what is inside of those two

Comments = dict[tuple[int, ...], str]


def page() -> str:
    """Every service, method, message and field."""
    contract = compiled()
    comments = {tuple(place.path): joined(place.leading_comments) for place in contract.source_code_info.location}
    lines = ["# gRPC", "", INTRODUCTION, *services(contract, comments)]
    for place, message in enumerate(contract.message_type):
        lines += ["", f"## {message.name}", *paragraph(comments.get((MESSAGES, place)))]
        lines += fields(message, (MESSAGES, place), comments)
    return "\n".join(lines) + "\n"


def compiled() -> FileDescriptorProto:
    """The contract with its comments, which the code that is made of it does not have."""
    with TemporaryDirectory() as directory:
        made = Path(directory) / "contract"
        include = [f"-I{ROOT / FOLDER}", f"-I{files('grpc_tools') / '_proto'}"]
        if protoc.main(["protoc", *include, "--include_source_info", f"--descriptor_set_out={made}", NAME]):
            raise RuntimeError(f"{NAME} cannot be compiled: what is said above is wrong with it")
        (contract,) = FileDescriptorSet.FromString(made.read_bytes()).file
    return contract


def services(contract: FileDescriptorProto, comments: Comments) -> Iterator[str]:
    for place, service in enumerate(contract.service):
        yield from ("", f"## {service.name}", *paragraph(comments.get((SERVICES, place))))
        for number, method in enumerate(service.method):
            taken = f"{'a stream of ' if method.client_streaming else ''}{linked(method.input_type)}"
            yield from ("", f"### {method.name}")
            yield from paragraph(comments.get((SERVICES, place, PARTS, number)))
            yield from ("", f"Request: {taken}. Response: {linked(method.output_type)}.")


def fields(message: DescriptorProto, path: tuple[int, ...], comments: Comments) -> Iterator[str]:
    if not message.field:
        yield from ("", "No fields.")
        return
    yield from ("", "| number | field | type | meaning |", "|---|---|---|---|")
    for place, field in enumerate(message.field):
        meaning = comments.get((*path, PARTS, place), "").replace("|", "\\|")
        yield f"| {field.number} | `{field.name}` | {type_of(field, message)} | {meaning} |"


def type_of(field: FieldDescriptorProto, message: DescriptorProto) -> str:
    for nested in message.nested_type:
        if nested.options.map_entry and field.type_name.endswith(f".{message.name}.{nested.name}"):
            return " ".join(["map of", *(f"{type_of(part, nested)} to" for part in nested.field)]).removesuffix(" to")
    of_one = linked(field.type_name) or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {of_one}"
    return f"optional {of_one}" if field.proto3_optional else of_one


def linked(type_name: str) -> str:
    """A message of the contract with a link to it; any other by its full name."""
    name = type_name.removeprefix(".search.v1.")
    return type_name.lstrip(".") if name == type_name else f"[{name}](#{name.lower()})"


def paragraph(comment: str | None) -> list[str]:
    return ["", comment] if comment else []


def joined(comment: str) -> str:
    return " ".join(comment.split())


INTRODUCTION = """\
`onhand serve --grpc` implements this contract, package `search.v1`, from
[proto/onhand/search/v1/search.proto](../../proto/onhand/search/v1/search.proto). The names and numbers of fields never
change; new fields get new numbers. A field that is not set has the empty value of its type; clients can tell the
difference only for an `optional` field."""

"""Messages that were right once: bytes changed, cut, repeated, joined and nested, by chance that can be repeated."""

from collections.abc import Callable
from datetime import UTC, datetime
from random import Random

from google.protobuf.message import Message

from onhand.document import Filter
from onhand.grpc import search_pb2 as wire
from onhand.grpc import translate

_FILTER = translate.filter_message(
    Filter(("sarah", "bob"), ("email",), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC), ("inbox",))
)
SEEDS: dict[str, list[Message]] = {
    "/search.v1.SearchService/KeywordSearch": [
        wire.KeywordSearchRequest(query="dock sensors", filter=_FILTER, limit=7, explain=True),
        wire.KeywordSearchRequest(query="über 🚀", page_token="AAoBAgMEBQYHCAkKCwwN"),
    ],
    "/search.v1.SearchService/SemanticSearch": [
        wire.SemanticSearchRequest(query="Q3 forecast", filter=_FILTER, limit=3, min_score=0.25)
    ],
    "/search.v1.SearchService/FilterDocuments": [
        wire.FilterRequest(filter=_FILTER, limit=50, order_by="created_time desc, title")
    ],
    "/search.v1.SearchService/FusedSearch": [wire.FusedSearchRequest(query="money back", filter=_FILTER, limit=2)],
    "/search.v1.SearchService/GetDocument": [
        wire.GetDocumentRequest(document_id="mail-forecast", first_line=1, last_line=3),
        wire.GetDocumentRequest(document_id="mail-forecast", first_byte=3, max_bytes=10),
    ],
    "/search.v1.WriteService/DeleteDocuments": [wire.DeleteDocumentsRequest(document_ids=["nope", "mail-000"])],
}


def mutated(random: Random) -> tuple[str, bytes]:
    """A method, and a message to it that somebody meddled with."""
    method = random.choice(list(SEEDS))
    raw = random.choice(SEEDS[method]).SerializeToString()
    for _ in range(random.randint(1, 4)):
        raw = random.choice(_CHANGES)(random, raw)
    return method, raw


def _flipped(random: Random, raw: bytes) -> bytes:
    if not raw:
        return raw
    at = random.randrange(len(raw))
    return raw[:at] + bytes([raw[at] ^ 1 << random.randrange(8)]) + raw[at + 1 :]


def _replaced(random: Random, raw: bytes) -> bytes:
    if not raw:
        return raw
    at = random.randrange(len(raw))
    return raw[:at] + random.choice([b"\x00", b"\xff", b"\x7f", b"\x80", random.randbytes(1)]) + raw[at + 1 :]


def _cut(random: Random, raw: bytes) -> bytes:
    start, end = sorted(random.randint(0, len(raw)) for _ in range(2))
    return raw[:start] + raw[end:]


def _inserted(random: Random, raw: bytes) -> bytes:
    at = random.randint(0, len(raw))
    odd = [
        random.randbytes(random.randint(1, 8)),
        b"\xff" * 10 + b"\x01",
        b"\x80" * 12,
        b"\xed\xa0\x80",
        b"\x18" + b"\xff" * 9 + b"\x01",
        b"\x25\x00\x00\xc0\x7f",
    ]
    return raw[:at] + random.choice(odd) + raw[at:]


def _repeated(random: Random, raw: bytes) -> bytes:
    return raw * random.randint(2, 20)


def _joined(random: Random, raw: bytes) -> bytes:
    other = random.choice(SEEDS[random.choice(list(SEEDS))])
    return raw + other.SerializeToString()


def _nested(random: Random, raw: bytes) -> bytes:
    for _ in range(random.randint(1, 12)):
        if len(raw) > 100:
            break
        raw = bytes([random.choice([0x0A, 0x12, 0x1A])]) + bytes([len(raw)]) + raw
    return raw


_CHANGES: list[Callable[[Random, bytes], bytes]] = [
    *(_flipped, _flipped, _replaced, _replaced, _cut, _inserted, _repeated, _joined, _nested)
]

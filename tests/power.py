"""What each of our files promises when the power fails: who writes it, and what has to be there again.

`python -m power KIND COUNT DIRECTORY` writes so often, in a directory of its own, and acknowledges each write there in
the file `acked`. `found` reads what is kept. Of each key the last acknowledged value has to be there, or the next one,
whose writer had no time to say so.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from onhand import trust
from onhand.cache.cache import open_cache
from onhand.corpora.notes import Notes
from onhand.document import Document
from onhand.lexical import segment
from onhand.mcp.approvals import Approvals
from onhand.mcp.servers import ServerConfig, read_servers, write_servers
from onhand.plan.plan import Plan
from onhand.project import open_index
from onhand.store import segments

KEYS = 5  # written again and again


class Kind(NamedTuple):
    """A file of ours: how the number of a write is written under its key, and how the number of each key is found."""

    open: Callable[[Path], Callable[[str, int], None]]
    found: Callable[[Path], dict[str, int]]


def text_of(number: int) -> str:
    return f"write {number} " + "is long enough to fill more than one sector " * (number % 40)


def documents(directory: Path) -> Callable[[str, int], None]:
    segments.MAX_TAIL_DOCUMENTS, segments.MAX_BULK_DOCUMENTS, segment.FAN = 3, 10, 2  # merges all the time
    index = open_index(directory / ".onhand" / "documents.db", None)
    return lambda key, number: (index.put([Document(key, text=text_of(number))]), None)[1]


def found_documents(directory: Path) -> dict[str, int]:
    path = directory / ".onhand" / "documents.db"
    if not path.exists():
        return {}
    with open_index(path, None) as index:
        assert index.check() == []
        texts = {hit.document_id: index.get(hit.document_id).text for hit in index.keyword("write", limit=50).hits}
    for text in texts.values():
        assert text == text_of(int(text.split()[1]))
    return {key: int(text.split()[1]) for key, text in texts.items()}


def notes(directory: Path) -> Callable[[str, int], None]:
    kept = Notes(directory / ".onhand" / "notes")
    return lambda key, number: (kept.write(key, "A note", text_of(number)), None)[1]


def found_notes(directory: Path) -> dict[str, int]:
    return {note.name: int(note.body.split()[1]) for note in Notes(directory / ".onhand" / "notes").all()}


def plan(directory: Path) -> Callable[[str, int], None]:
    kept = Plan(directory / ".onhand" / "plan.journal")

    def write(key: str, number: int) -> None:
        kept.change(lambda graph: graph.add(f"{key}-{number}", context={"text": text_of(number)}))
        if number % 12 == 11:
            kept.compact()

    return write


def found_plan(directory: Path) -> dict[str, int]:
    ids = Plan(directory / ".onhand" / "plan.journal").read(lambda graph: [node.id for node in graph.all()])
    numbers = sorted((int(number), key) for key, number in (id.split("-") for id in ids))
    assert [number for number, _ in numbers] == [*range(len(numbers))], "a hole in the plan"
    return {key: number for number, key in numbers}


def trusted(directory: Path) -> Callable[[str, int], None]:
    store = str(directory / "state" / "trusted")

    def write(key: str, number: int) -> None:
        trust.write_record(store, trust.TrustRecord(f"/{key}", settings={"text": text_of(number)}))

    return write


def found_trusted(directory: Path) -> dict[str, int]:
    found = {}
    for number in range(KEYS):
        record = trust.read_record(str(directory / "state" / "trusted"), f"/key{number}")
        if record is not None:
            found[f"key{number}"] = int(record.settings["text"].split()[1])
    return found


def servers(directory: Path) -> Callable[[str, int], None]:
    kept: dict[str, ServerConfig] = {}
    path = directory / "config" / "onhand" / "mcp.json"

    def write(key: str, number: int) -> None:
        kept[key] = ServerConfig(key, "server", (text_of(number),))
        write_servers(str(path), kept.values())

    return write


def found_servers(directory: Path) -> dict[str, int]:
    path = directory / "config" / "onhand" / "mcp.json"
    read = read_servers(str(path)).servers if path.exists() else ()
    return {server.key: int(server.args[0].split()[1]) for server in read}


def approvals(directory: Path) -> Callable[[str, int], None]:
    kept = Approvals(str(directory / "state" / "approvals.json"), policy="ask")
    return lambda key, number: kept.approve_server(ServerConfig(key, "server", (text_of(number),)))


def found_approvals(directory: Path) -> dict[str, int]:
    kept, found = Approvals(str(directory / "state" / "approvals.json"), policy="ask"), {}
    for key, entry in kept._servers.items():
        found[key] = int(str(entry["identity"]["shown"]).split("write ")[1].split()[0])
    return found


def cache(directory: Path) -> Callable[[str, int], None]:
    kept = open_cache(directory / ".onhand" / "cache.json")

    def write(key: str, number: int) -> None:
        kept.store(f"what is the {key}", text_of(number))
        kept.persist()

    return write


def found_cache(directory: Path) -> dict[str, int]:
    kept, found = open_cache(directory / ".onhand" / "cache.json"), {}
    for number in range(KEYS):
        if (answer := kept.lookup(f"what is the key{number}").entry) is not None:
            found[f"key{number}"] = int(str(answer.response).split()[1])
    return found


KINDS = {
    "documents": Kind(documents, found_documents),
    "notes": Kind(notes, found_notes),
    "plan": Kind(plan, found_plan),
    "trust": Kind(trusted, found_trusted),
    "servers": Kind(servers, found_servers),
    "approvals": Kind(approvals, found_approvals),
    "cache": Kind(cache, found_cache),
}


def key_of(number: int) -> str:
    return f"key{number % KEYS}"


def lost(kind: str, directory: Path, acked: int) -> list[str]:
    """What is missing of so many acknowledged writes, or is what nobody wrote."""
    there = KINDS[kind].found(directory)
    lost = []
    for key in map(key_of, range(KEYS)):
        numbers = [number for number in range(acked + 1) if key_of(number) == key]
        allowed = {number for number in numbers if number < acked}
        last = max(allowed, default=None)
        if there.get(key) not in {last, acked if key_of(acked) == key else last}:
            lost.append(f"{key} is {there.get(key)}, and {last} was acknowledged")
    return lost


def write(kind: str, count: int, directory: Path) -> None:
    """The writer."""
    os.chdir(directory)
    write_one = KINDS[kind].open(directory)
    with open("acked", "wb", buffering=0) as acked:
        for number in range(count):
            write_one(key_of(number), number)
            acked.write(json.dumps(number).encode() + b"\n")


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))

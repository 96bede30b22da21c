"""Find "the email Sarah sent about the Q3 forecast" as an agent does: filter, search by meaning, read one.

python examples/find_the_mail.py
"""

from pathlib import Path
from typing import Any

from onhand import Document, Documents, Registry, open_index
from onhand.corpora.sources import read_sources

MAIL = Path(__file__).parent / "sample-mail"

index = open_index()  # in memory; give it a path to keep it
index.put(item for item in read_sources([str(MAIL)]) if isinstance(item, Document))
registry = Registry(Documents(index).tools())


def call(name: str, **arguments: Any) -> Any:
    """Call a tool as a model does; return its JSON, or print why the call was refused."""
    result = registry.call(name, arguments)
    print(f"[agent → {name}] {arguments}")
    if not result.ok:
        print(f"  note: {result.text}")
        return None
    for note in result.structured.get("notes", ()):
        print(f"  note: {note}")
    return result.structured


print("[user] find the email Sarah sent about the Q3 forecast")
by_sarah = {"author": ["sarah"], "tags": ["email"]}
listed = call("filter_documents", filter=by_sarah, limit=50)
print(f"  → {listed['total']} hits: Sarah has sent so many emails in this corpus")

found = call("semantic_search", query="Q3 forecast", filter=by_sarah, limit=5)
if found is None:  # no embedder is installed: go by words, and see it said
    found = call("fused_search", query="Q3 forecast", filter=by_sarah, limit=5)
for hit in found["hits"]:
    print(f"  → {hit['score']:.2f}  {hit['title']}  ({hit['created_time'][:10]})")

mail = call("get_document", document_id=found["hits"][0]["document_id"])
print(f"  → {mail['title']}, {mail['created_time'][:10]}, {mail['author']}\n")
print(mail["text"])

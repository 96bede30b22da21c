"""Search over gRPC from Python, with the names, results and errors of an Index in this process.

    onhand serve --grpc                                       # in a directory with documents
    python examples/grpc_client/client.py "dock sensors" [127.0.0.1:50051]

$ONHAND_EXAMPLE_TOKEN is the token, if the server requires one.
"""

import asyncio
import os
import sys

from onhand import InputError
from onhand.grpc import AsyncClient, Client


def main(query: str, address: str = "127.0.0.1:50051") -> None:
    token = os.environ.get("ONHAND_EXAMPLE_TOKEN", "")
    with Client(address, token=token) as client:
        found = client.keyword(query, limit=3)
        for hit in found.hits:
            print(f"{hit.score:.4f} {hit.document_id}: {hit.title}")
        if found.hits:
            print(f"{len(client.get(found.hits[0].document_id).text)} characters in the first")
        try:
            client.keyword("")
        except InputError as error:
            print(f"refused: {error}")
    asyncio.run(both_ways(query, address, token))


async def both_ways(query: str, address: str, token: str) -> None:
    async with AsyncClient(address, token=token) as client:
        by_words, fused = await asyncio.gather(client.keyword(query), client.fused(query))
        print(f"{len(by_words.hits)} by words, {len(fused.hits)} fused")
        for note in fused.notes:
            print(f"note: {note}")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What does gRPC itself cost? A server that answers with as many bytes as it is asked for, and does nothing else.

grpc_load.py runs it beside ours, and subtracts nothing: it only shows how much of the door is gRPC's.
"""

import asyncio
from typing import Any

import grpc

METHOD = "/floor/Answer"


async def answer(raw: bytes, context: Any) -> bytes:
    return bytes(int(raw))


async def serve() -> None:
    """Say the port, and answer until the process is ended."""
    server = grpc.aio.server()
    handlers: dict[str, Any] = {"Answer": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("floor", handlers),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve())

"""`python -m benchmarks.picker.bare`: a gRPC server that returns requests and answers as they are, for one endpoint.

It uses the server of grpcio and does nothing else, so it shows what a picker with this server costs at least.
"""

import argparse
import asyncio
from typing import Any

import grpc
import grpc.aio
import uvloop

from benchmarks.picker import wire
from benchmarks.picker.exchange import DESTINATION

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
ENDPOINT = b"127.0.0.1:1"


def chosen(endpoint: bytes) -> bytes:
    """Return the ``ProcessingResponse`` that names *endpoint* in a header."""
    option = wire.field(1, wire.field(1, DESTINATION) + wire.field(3, endpoint)) + wire.numeric_field(3, 2)
    common = wire.field(2, wire.field(1, option))
    return wire.field(wire.HEADERS_OF_REQUEST, wire.field(1, common))


async def process(incoming: Any, context: Any) -> None:
    """Answer the messages of one request."""
    pieces: list[bytes] = []
    async for message in incoming:
        kind, content = wire.kind_and_content(message)
        if kind == wire.REQUEST_BODY:
            piece, is_last = wire.piece_in(content)
            pieces.append(piece)
            if is_last:
                await context.write(chosen(ENDPOINT))
                for number, each in enumerate(pieces, start=1):
                    is_end = number == len(pieces)
                    await context.write(wire.streamed_answer(wire.BODY_OF_REQUEST, each, is_last=is_end))
        elif kind == wire.RESPONSE_HEADERS:
            await context.write(wire.field(wire.HEADERS_OF_ANSWER, b""))
        elif kind == wire.RESPONSE_BODY:
            piece, is_last = wire.piece_in(content)
            await context.write(wire.streamed_answer(wire.BODY_OF_ANSWER, piece, is_last=is_last))


async def serve(port: int) -> None:
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)])
    handler = grpc.stream_stream_rpc_method_handler(process, None, None)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Process": handler}),))
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    print(f"ready: http://127.0.0.1:{bound}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.picker.bare", description=__doc__.split("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="0 (the default) is any free one; the ready line names it")
    uvloop.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()

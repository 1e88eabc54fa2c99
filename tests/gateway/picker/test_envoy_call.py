"""Calls of Envoy that are malformed; tests/gateway/picker/test_picker.py has the others."""

import asyncio
from typing import Any

from gateway.picker import wire
from gateway.picker.envoy_call import EnvoyCall
from gateway.picker.http2.call import FAILED_PRECONDITION, INVALID_ARGUMENT
from gateway.picker.stream import EnvoyStream
from tests.gateway.picker.http2.peer import Peer, data_frames, message

HEAD = wire.ProcessingRequest(request_headers=wire.HttpHeaders()).SerializeToString()
BODY = wire.ProcessingRequest(request_body=wire.HttpBody(body=b"x", end_of_stream=True)).SerializeToString()


class Served:
    """Requests that were begun, each of which waits for the end of its caller."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self.received: list[Any] = []

    def begin(self, stream: EnvoyStream, _: Any) -> asyncio.Task[None]:
        async def serve() -> None:
            while (received := await stream.receive())["type"] != "http.disconnect":
                self.received.append(received["body"])

        return self._tasks.create_task(serve())


async def statuses(*messages: bytes) -> tuple[list[int], list[bytes]]:
    """Return the statuses with which a call with *messages* ends, and the bodies that the request gets."""
    async with asyncio.TaskGroup() as tasks:
        served, peer = Served(tasks), Peer()
        call = peer.open().call
        call.handler = EnvoyCall(call, served.begin, reports_served=False)
        for each in messages:
            peer.send(data_frames(1, message(each)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        if not call.is_finished:
            peer.send(data_frames(1, b"", flags=1))
        payloads = [payload for kind, _, _, payload in peer.read() if kind == 1]
    return [int(payload.partition(b"grpc-status")[2][1:3].strip(b"\x00") or 0) for payload in payloads], served.received


async def test_a_call_begins_with_headers() -> None:
    assert ([FAILED_PRECONDITION], []) == await statuses(BODY)


async def test_a_malformed_message_ends_the_request() -> None:
    assert ([INVALID_ARGUMENT], []) == await statuses(b"\xff")
    assert ([INVALID_ARGUMENT], [b"x"]) == await statuses(HEAD, BODY, b"\xff")


async def test_the_end_of_the_messages_ends_the_request() -> None:
    assert ([0], [b"x"]) == await statuses(HEAD, BODY)
    assert ([0], []) == await statuses()

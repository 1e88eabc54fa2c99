"""A worker over HTTP, for the `Backend` contract suite."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway.backends.openai_endpoint import OpenAIEndpoint
from gateway.backends.upstream.timeouts import Timeouts
from gateway.backends.worker import HttpWorker
from gateway.workers.dynamo.pinned_worker import PinnedWorker
from gateway.workers.shared_address.placed_worker import PlacedWorker, SharedAddress
from gateway.workers.worker_place import WorkerPlace
from tests.contracts.harness import Answers, AnswersStatus, Behavior, BreaksAfter, HangsAfter, Refuses, Stage, Streams
from tests.gateway.backends.upstream.peer import Peer, Request, Script, Wire, free_port, serving

Reached = HttpWorker | OpenAIEndpoint | PlacedWorker
"""Backends that are reached over HTTP by the one client."""


@dataclass(frozen=True, slots=True)
class WorkerStage:
    backend: Reached
    peer: Peer | None

    @property
    def calls_seen(self) -> int:
        return len(self.peer.requests) if self.peer else 0

    async def caller_left(self, *, within_s: float) -> bool:
        if self.peer is None:
            return False
        try:
            async with asyncio.timeout(within_s):
                await self.peer.left.wait()
        except TimeoutError:
            return False
        return True


class WorkerHarness:
    name = "worker"

    @asynccontextmanager
    async def stage(
        self, behavior: Behavior, *, first_byte_s: float | None = None, idle_s: float | None = None
    ) -> AsyncIterator[Stage]:
        timeouts = Timeouts(first_byte_s=first_byte_s or 60.0, idle_s=idle_s or 60.0)
        if behavior == Refuses():
            yield WorkerStage(self._backend(f"http://127.0.0.1:{free_port()}", timeouts), None)
            return
        async with serving(_script(behavior)) as peer:
            backend = self._backend(peer.url, timeouts)
            yield WorkerStage(backend, peer)
            await backend.aclose()

    def _backend(self, url: str, timeouts: Timeouts) -> Reached:
        return HttpWorker("w1", url, timeouts=timeouts, sweep_s=0.02)


class OpenAIEndpointHarness(WorkerHarness):
    """It speaks as a worker does, under a base path of its own."""

    name = "openai endpoint"

    def _backend(self, url: str, timeouts: Timeouts) -> Reached:
        return OpenAIEndpoint("openai:127.0.0.1", f"{url}/openai/v1", model="tiny", timeouts=timeouts)


class RankHarness(WorkerHarness):
    """One of several behind one address."""

    name = "rank"

    def _backend(self, url: str, timeouts: Timeouts) -> Reached:
        return PlacedWorker(
            "w1#3", WorkerPlace(3), SharedAddress(HttpWorker("w1", url, timeouts=timeouts, sweep_s=0.02))
        )


class DynamoHarness(WorkerHarness):
    """A worker behind a Dynamo frontend."""

    name = "dynamo"

    def _backend(self, url: str, timeouts: Timeouts) -> Reached:
        http = HttpWorker("w1", url, timeouts=timeouts, sweep_s=0.02)
        return PinnedWorker("w1#7", WorkerPlace(instance="7"), SharedAddress(http))


def _script(behavior: Behavior) -> Script:
    async def script(request: Request, wire: Wire) -> None:
        match behavior:
            case Answers(text):
                await wire.send(_json_answer(b"200 OK", _completion(request, text)))
            case AnswersStatus(status):
                error = {"error": {"message": "no", "type": "server_error", "param": None, "code": None}}
                await wire.send(_json_answer(b"%d Error" % status, error))
            case Streams(words):
                await _stream(request, wire, words)
                await wire.send(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
            case HangsAfter(words):
                await _stream(request, wire, words)
                await wire.until_caller_left()
            case BreaksAfter(words):
                await _stream(request, wire, words)
                await wire.close()
            case Refuses():
                raise AssertionError("nobody can reach this")

    return script


async def _stream(request: Request, wire: Wire, words: tuple[str, ...]) -> None:
    if not words:
        return
    await wire.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    model = json.loads(request.body)["model"]
    for word in words:
        choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
        event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [choice]}
        await wire.send_pieces(_chunk(b"data: %b\n\n" % json.dumps(event).encode()))


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _completion(request: Request, text: str) -> object:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    model = json.loads(request.body)["model"]
    return {"id": "c", "object": "chat.completion", "created": 1, "model": model, "choices": [choice]}


def _json_answer(status: bytes, value: object) -> bytes:
    body = json.dumps(value).encode()
    head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
    return head + body

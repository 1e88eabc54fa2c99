"""Requests for URL paths that are no completions, such as health checks of a worker. They go to a worker with little
load.
"""

from collections.abc import Callable
from typing import Any

from cache_index import WorkerId
from gateway.backends.backend import Call, WorkerBackend
from gateway.models.registry import Models
from gateway.picker.delivery import RETRY_AFTER_S
from gateway.picker.destinations import Destinations
from gateway.picker.stream import EnvoyStream
from gateway.protocol.errors import BodyTooLarge, GatewayError, NoWorker, UnknownRoute


class OtherRequests:
    """Choice of a worker for requests that are not routed by their prompt. They wait in no queue and cost nothing."""

    def __init__(
        self, models: Models, destinations: Destinations, *, max_body_bytes: int, is_refused: Callable[[], bool]
    ) -> None:
        """Create the choice. If *is_refused* returns true, callers need keys, and these requests get status 404,
        because no limit counts them.
        """
        self._models = models
        self._destinations = destinations
        self._max_body_bytes = max_body_bytes
        self._is_refused = is_refused
        self._turn = 0

    async def serve(self, stream: EnvoyStream, call: Call, subset: frozenset[str] | None) -> None:
        """Let Envoy send *call* to a worker whose endpoint is in *subset*, and pass on the answer."""
        try:
            if self._is_refused():
                raise UnknownRoute("The gateway does not serve this path")
            body = await self._body(stream)
            endpoint, worker = self._worker(subset)
        except GatewayError as error:
            await refuse(stream, error)
            return
        await stream.forward(worker.addressed(call.changed(body=body)), endpoint)
        reply, _ = await stream.reply()
        if not stream.shows_answers:
            return
        await stream.response.send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
        while not reply.ended:
            await stream.response.send({"type": "http.response.body", "body": await reply.read(), "more_body": True})
        await stream.response.send({"type": "http.response.body", "body": b""})

    def _worker(self, subset: frozenset[str] | None) -> tuple[str, WorkerBackend]:
        """Return a ready worker with the fewest running requests, and its endpoint."""
        found: list[tuple[int, str, WorkerBackend]] = []
        for model in self._models:
            for worker in model.fleet:
                backend = model.workers.get(WorkerId(worker.id))
                if backend is None or not worker.is_ready:
                    continue
                endpoint = self._destinations.known(backend)
                if endpoint is not None and (subset is None or endpoint in subset):
                    found.append((worker.in_flight, endpoint, backend))
        if not found:
            raise NoWorker("No worker can answer the request", retry_after_s=RETRY_AFTER_S)
        least = min(in_flight for in_flight, _, _ in found)
        idle = [(endpoint, backend) for in_flight, endpoint, backend in found if in_flight == least]
        self._turn += 1
        return idle[self._turn % len(idle)]

    async def _body(self, stream: EnvoyStream) -> bytes:
        """Return the whole body of the request.

        Raises:
            BodyTooLarge: if it is larger than the limit.
        """
        pieces: list[bytes] = []
        size, more = 0, True
        while more:
            message: dict[str, Any] = await stream.receive()
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > self._max_body_bytes:
                raise BodyTooLarge(f"The body is larger than {self._max_body_bytes} bytes (server.max_body_bytes).")
            more = message.get("more_body", False)
        return b"".join(pieces)


async def refuse(stream: EnvoyStream, error: GatewayError) -> None:
    """Answer the request of *stream* with *error* in OpenAI's format."""
    headers = [(b"content-type", b"application/json"), *error.response_headers]
    await stream.response.send({"type": "http.response.start", "status": error.status, "headers": headers})
    await stream.response.send({"type": "http.response.body", "body": error.to_body()})

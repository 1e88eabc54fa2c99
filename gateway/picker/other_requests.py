"""Requests that are not routed by their prompt: those for URL paths that are no completions, such as health checks of a
worker, and those whose bodies Envoy does not show. Envoy gets an answer as soon as it has sent the headers.
"""

from collections.abc import Callable
from typing import Any, Final

from gateway.backends.backend import Call, WorkerBackend
from gateway.models.registry import Models
from gateway.picker.destinations import Destinations
from gateway.picker.session_workers import MODEL_HEADER, by_weight, endpoints_of, ready_workers
from gateway.picker.stream import RETRY_AFTER_S, EnvoyStream
from gateway.picker.subset import Subset
from gateway.protocol.errors import BodyTooLarge, GatewayError, NoWorker, UnknownRoute
from gateway.protocol.headers import HeaderLookup, Headers
from gateway.protocol.request_hints import REWRITE_HEADERS
from gateway.protocol.session_identity import session_name

MODEL_HEADERS: Final = (*REWRITE_HEADERS, MODEL_HEADER)
"""Headers in which gateways name the model of a request."""


class OtherRequests:
    """Choice of a worker for requests that are not routed by their prompt. They wait in no queue and cost nothing.

    A request with a session goes to the worker to which the strategy session sends its session, and any other request
    to a worker with little load.
    """

    def __init__(
        self,
        models: Models,
        destinations: Destinations,
        *,
        max_body_bytes: int,
        max_fallbacks: int,
        is_refused: Callable[[], bool],
    ) -> None:
        """Create the choice. If *is_refused* returns true, callers need keys, and these requests get status 404,
        because no limit counts them. Envoy gets at most *max_fallbacks* further endpoints for a session.
        """
        self._models = models
        self._destinations = destinations
        self._max_body_bytes = max_body_bytes
        self._max_fallbacks = max_fallbacks
        self._is_refused = is_refused
        self._turn = 0

    async def serve(self, stream: EnvoyStream, call: Call, subset: Subset | None) -> None:
        """Let Envoy send *call* to a worker whose endpoint is in *subset*, and pass on the answer."""
        try:
            if self._is_refused():
                raise UnknownRoute("The gateway does not serve this path, or the proxy in front of it hides the body")
            body = await self._body(stream)
            endpoints, worker = self._workers(call.headers, subset)
        except GatewayError as error:
            await refuse(stream, error)
            return
        await stream.forward(worker.addressed(call.changed(body=body)), ",".join(endpoints))
        reply, _ = await stream.reply()
        if not stream.shows_answers:
            return
        await stream.response.send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
        while not reply.ended:
            await stream.response.send({"type": "http.response.body", "body": await reply.read(), "more_body": True})
        await stream.response.send({"type": "http.response.body", "body": b""})

    def _workers(self, headers: Headers, subset: Subset | None) -> tuple[list[str], WorkerBackend]:
        """Return the endpoints to try in order, and the worker at the first one.

        Raises:
            UnknownModel: if the headers name a model that does not exist.
            InvalidField: if the headers name two sessions.
            NoWorker: if no worker is ready.
        """
        header = _lookup(headers)
        named = next(filter(None, map(header, MODEL_HEADERS)), None)
        models = list(self._models) if named is None else [self._models.find(named)]
        found = [each for model in models for each in ready_workers(model, self._destinations, subset)]
        if not found:
            raise NoWorker("No worker can answer the request", retry_after_s=RETRY_AFTER_S)
        session = next(filter(None, (session_name(header, model.session_header, None) for model in models)), None)
        if session is None:
            least = min(each.state.in_flight for each in found)
            idle = [each for each in found if each.state.in_flight == least]
            self._turn += 1
            chosen = idle[self._turn % len(idle)]
            return [chosen.endpoint], chosen.backend
        found = by_weight(session, found)
        return endpoints_of(found, self._max_fallbacks), found[0].backend

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


def _lookup(headers: Headers) -> HeaderLookup:
    """Return the function that returns the first value of a header by its name."""
    fields = {name: value for name, value in reversed(headers) if value}

    def header(name: bytes) -> str | None:
        value = fields.get(name)
        return None if value is None else value.decode("latin-1")

    return header


async def refuse(stream: EnvoyStream, error: GatewayError) -> None:
    """Answer the request of *stream* with *error* in OpenAI's format."""
    headers = [(b"content-type", b"application/json"), *error.response_headers]
    await stream.response.send({"type": "http.response.start", "status": error.status, "headers": headers})
    await stream.response.send({"type": "http.response.body", "body": error.to_body()})

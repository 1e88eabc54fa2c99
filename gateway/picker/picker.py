"""Endpoint picker: serve the requests that Envoy asks about by external processing (ext_proc)."""

import asyncio
import logging
from collections.abc import Callable
from traceback import format_tb
from typing import Any
from urllib.parse import unquote_to_bytes

import grpc

from gateway.backends.backend import Call
from gateway.models.registry import Models
from gateway.picker import messages
from gateway.picker.delivery import EnvoyDelivery
from gateway.picker.destinations import Destinations
from gateway.picker.other_requests import OtherRequests, refuse
from gateway.picker.rules import PickerRules
from gateway.picker.stream import EnvoyStream
from gateway.protocol import canonical_path
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import GatewayError
from gateway.protocol.headers import Headers
from gateway.server.asgi import App, Message

_log = logging.getLogger(__name__)

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
SELECTION_HEADER = b"test-epp-endpoint-selection"
"""Header with which the conformance tests of the Gateway API Inference Extension name the endpoints to choose from."""
_OWN_PATHS = ("/v1/models", "/v1/responses")
"""Paths that the gateway answers itself."""


class Picker:
    """Handler of Envoy's streams, each for one request. The application *proxy* serves completions, and *api* lists of
    models.
    """

    def __init__(
        self,
        proxy: App,
        api: App,
        models: Models,
        rules: PickerRules,
        *,
        needs_keys: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._proxy = proxy
        self._api = api
        self._models = models
        self._rules = rules
        self._destinations = Destinations(clock)
        self._others = OtherRequests(
            models,
            self._destinations,
            max_body_bytes=rules.max_body_bytes,
            is_refused=needs_keys,
        )
        self._tasks: asyncio.TaskGroup | None = None

    def handler(self, tasks: asyncio.TaskGroup) -> Any:
        """Return the handler of the service for a gRPC server. Requests run in *tasks*."""
        self._tasks = tasks
        process = grpc.stream_stream_rpc_method_handler(
            self._process,
            messages.request_in,
            messages.encoded,
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"Process": process})

    async def _process(self, incoming: Any, context: Any) -> None:
        """Serve one request of Envoy."""
        first = await anext(aiter(incoming), None)
        if first is None:
            return
        if first.WhichOneof("request") != "request_headers":
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the first message must be request_headers")
        assert self._tasks is not None, "the server has started"
        stream = EnvoyStream(context.write, first, reports_served=self._rules.is_conformance_test)
        task = self._tasks.create_task(self._serve(stream, first, context.peer()))
        try:
            await stream.run(incoming)
        finally:
            stream.close()
            if stream.is_passed_on:
                task.cancel()

    async def _serve(self, stream: EnvoyStream, first: messages.Message, peer: str) -> None:
        try:
            if stream.is_handled:
                await self._route(stream, first, peer)
            else:
                text = "Set request_body_mode and response_body_mode of ext_proc to FULL_DUPLEX_STREAMED or BUFFERED"
                await refuse(stream, GatewayError(text))
        except Exception as error:  # noqa: BLE001  # one request must not end the others
            # Without the text of the error, which might quote the prompt.
            trace = "".join(format_tb(error.__traceback__))
            _log.error("a request of Envoy failed: %s\n%s", type(error).__name__, trace)
            await refuse(stream, GatewayError("The gateway failed to serve this request"))
        finally:
            stream.drop_body()

    async def _route(self, stream: EnvoyStream, first: messages.Message, peer: str) -> None:
        """Pass the request to the application that serves its path."""
        subset = await self._subset(stream, first)
        scope = scope_of(stream.headers, peer)
        await stream.begin()
        path = scope["path"]
        if path in ENDPOINTS and stream.shows_body:
            scope["delivery"] = EnvoyDelivery(
                stream,
                self._destinations,
                subset=subset,
                max_fallbacks=self._rules.max_fallbacks,
                shows_answers=stream.shows_answers,
            )
            await self._proxy(scope, stream.receive, stream.response.send)
        elif path.startswith(_OWN_PATHS) and path not in ENDPOINTS:
            await self._api(scope, stream.receive, stream.response.send)
        else:
            stream.is_passed_on = True
            await self._destinations.resolve(each.url for model in self._models for each in model.workers.values())
            headers = [header for header in scope["headers"] if header[0] != b"host"]
            call = Call(scope["method"].encode("ascii"), _target(stream.headers), headers, b"", False, "")
            await self._others.serve(stream, call, subset)

    async def _subset(self, stream: EnvoyStream, first: messages.Message) -> frozenset[str] | None:
        """Return the endpoints that Envoy or a conformance test accepts for the request, or None for all."""
        subset = messages.subset_in(first)
        if self._rules.is_conformance_test:
            said = [value.decode("latin-1") for name, value in stream.headers if name == SELECTION_HEADER]
            named = frozenset(each.strip() for value in said for each in value.split(",") if each.strip())
            if named:
                subset = named if subset is None else subset & named
        if subset is not None:
            await self._destinations.resolve(each.url for model in self._models for each in model.workers.values())
        return subset


def scope_of(headers: Headers, peer: str) -> Message:
    """Return the ASGI scope of the request with *headers*, which Envoy at the gRPC address *peer* has received."""
    pseudo = {name: value for name, value in headers if name.startswith(b":")}
    raw_path, _, query = _target(headers).partition(b"?")
    plain = unquote_to_bytes(raw_path).decode("utf-8", "replace")
    path = canonical_path.canonical(plain, ENDPOINTS)
    return {
        "type": "http",
        "http_version": "1.1",
        "method": pseudo.get(b":method", b"POST").decode("latin-1").upper(),
        "scheme": "http",
        "path": path,
        "raw_path": raw_path if path == plain else canonical_path.raw(path),
        "query_string": query,
        "root_path": "",
        "headers": [
            (b"host", pseudo.get(b":authority", b"")),
            *[header for header in headers if not header[0].startswith(b":") and header[0] != b"host"],
        ],
        "client": _client(peer),
        "state": {},
    }


def _target(headers: Headers) -> bytes:
    return next((value for name, value in headers if name == b":path"), b"/")


def _client(peer: str) -> tuple[str, int] | None:
    """Return the address and port in *peer*, such as ``ipv4:10.0.0.1:5000``, or None for a Unix socket."""
    kind, _, address = peer.partition(":")
    if kind not in {"ipv4", "ipv6"}:
        return None
    host, _, port = unquote_to_bytes(address).decode("ascii").rpartition(":")
    return host.strip("[]"), int(port)

"""Endpoint picker: serve the requests that Envoy asks about by external processing (ext_proc)."""

import asyncio
import logging
from collections.abc import Callable
from traceback import format_tb
from typing import Final
from urllib.parse import unquote_to_bytes

from gateway.backends.backend import Call
from gateway.models.registry import Models
from gateway.picker import messages
from gateway.picker.delivery import EnvoyDelivery
from gateway.picker.destinations import Destinations
from gateway.picker.envoy_call import EnvoyCall
from gateway.picker.http2.call import UNAVAILABLE, GrpcCall, Handler
from gateway.picker.other_requests import OtherRequests, refuse
from gateway.picker.rules import PickerRules
from gateway.picker.session_workers import SessionWorkers
from gateway.picker.stream import EnvoyStream
from gateway.picker.subset import Subset
from gateway.protocol import canonical_path
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import BodyTooLarge, GatewayError
from gateway.protocol.headers import Headers
from gateway.server.asgi import App, Message

Address = tuple[str, int] | None
"""Address and port of Envoy, or None for a Unix socket."""

_log = logging.getLogger(__name__)

PROCESS: Final = b"/envoy.service.ext_proc.v3.ExternalProcessor/Process"
"""Method that Envoy calls for each request."""
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
            max_fallbacks=rules.max_fallbacks,
            is_refused=needs_keys,
        )
        self._sessions = SessionWorkers(models, self._destinations, max_fallbacks=rules.max_fallbacks, clock=clock)
        self._running = 0

    def open(self, call: GrpcCall, tasks: asyncio.TaskGroup) -> Handler | None:
        """Return the handler of one request of Envoy, which runs in *tasks*. Refuse the request if too many run."""
        if self._running >= self._rules.max_running:
            call.finish(UNAVAILABLE, "the picker serves too many requests")
            return None

        def begin(stream: EnvoyStream, first: messages.Message) -> asyncio.Task[None]:
            self._running += 1
            task = tasks.create_task(self._serve(stream, first, call.peer))
            task.add_done_callback(self._note_end)
            return task

        return EnvoyCall(call, begin, reports_served=self._rules.is_conformance_test)

    def _note_end(self, _: asyncio.Task[None]) -> None:
        self._running -= 1

    async def _serve(self, stream: EnvoyStream, first: messages.Message, peer: Address) -> None:
        try:
            if stream.is_handled and stream.exceeds(self._rules.max_buffered_bytes):
                await refuse(stream, _too_large(self._rules.max_buffered_bytes))
            elif stream.is_handled:
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

    async def _route(self, stream: EnvoyStream, first: messages.Message, peer: Address) -> None:
        """Pass the request to the application that serves its path."""
        subset = await self._subset(stream, first)
        scope = scope_of(stream.headers, peer)
        stream.begin()
        path = scope["path"]
        if path in ENDPOINTS and stream.shows_body:
            scope["delivery"] = EnvoyDelivery(
                stream,
                self._destinations,
                subset=subset,
                max_fallbacks=self._rules.max_fallbacks,
                shows_answers=stream.shows_answers,
                sessions=self._sessions if self._may_begin(stream, path) else None,
                reports_scores=self._rules.endpoint_scores,
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

    def _may_begin(self, stream: EnvoyStream, path: str) -> bool:
        """Return whether the headers of a request can decide, before its body arrives.

        The body of a response can continue one that another worker keeps, and a compressed body has to change.
        """
        if not self._rules.session_header_decides or not stream.can_begin or path.startswith(_OWN_PATHS):
            return False
        said = dict(stream.headers)
        announced = said.get(b"content-length", b"0")
        return b"content-encoding" not in said and announced.isdigit() and int(announced) <= self._rules.max_body_bytes

    async def _subset(self, stream: EnvoyStream, first: messages.Message) -> Subset | None:
        """Return the endpoints that Envoy or a conformance test accepts for the request, or None for all."""
        accepted = messages.subset_in(first)
        subset = None if accepted is None else Subset(accepted)
        if self._rules.is_conformance_test:
            said = [value.decode("latin-1") for name, value in stream.headers if name == SELECTION_HEADER]
            named = frozenset(each.strip() for value in said for each in value.split(",") if each.strip())
            if named:
                subset = Subset(named, within=subset)
        if subset is not None:
            await self._destinations.resolve(each.url for model in self._models for each in model.workers.values())
        return subset


def _too_large(max_bytes: int) -> BodyTooLarge:
    text = f"The body is larger than {max_bytes} bytes, which is what the proxy in front of the gateway keeps in memory"
    return BodyTooLarge(f"{text} (picker.max_buffered_bytes).")


def scope_of(headers: Headers, peer: Address) -> Message:
    """Return the ASGI scope of the request with *headers*, which Envoy at the address *peer* has received."""
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
        "client": peer,
        "state": {},
    }


def _target(headers: Headers) -> bytes:
    return next((value for name, value in headers if name == b":path"), b"/")

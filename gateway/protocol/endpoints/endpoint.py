"""Functions and values that differ between the endpoints of workers. All functions are pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from gateway.protocol.body import Body
from gateway.protocol.endpoints.faults import OPENAI, ErrorShape, fault_of, normalized
from gateway.protocol.endpoints.missing import missing_endpoint
from gateway.protocol.engine_fields import SESSION_FIELD
from gateway.protocol.errors import GatewayError
from gateway.protocol.splice import asking_usage, spliced, without
from gateway.protocol.sse import ChunkObserver, StreamObserver
from gateway.protocol.usage import Usage, usage_of

JSON: Final = b"application/json"
FORM = b"multipart/form-data"


class Parse(Protocol):
    def __call__(self, raw: bytes, content_type: bytes, /) -> Body:
        """Parse the request body *raw*, whose content type is *content_type*.

        Raises:
            MalformedBody, InvalidField: if the body is not valid.
        """
        ...


class UpstreamBody(Protocol):
    def __call__(self, raw: bytes, content_type: bytes, body: Body, upstream_name: str, /) -> bytes:
        """Return the bytes to send to the worker. *raw* is the caller's original body, *body* is the parsed body."""
        ...


class MakeObserver(Protocol):
    def __call__(self, *, strip_usage: bool) -> StreamObserver:
        """Return an observer for one stream. If *strip_usage* is true, the observer removes usage that the caller has
        not requested.
        """
        ...


def read_as_json(parse: Callable[[bytes], Body]) -> Parse:
    """Return *parse* as the parser of an endpoint that accepts JSON only."""

    def parse_json(raw: bytes, _content_type: bytes, /) -> Body:
        return parse(raw)

    return parse_json


def json_upstream_body(raw: bytes, _content_type: bytes, body: Body, upstream_name: str, /) -> bytes:
    """Return *raw* as a worker gets it: with the worker's model name, a request for usage in streams, the gateway's
    cache salt, and no session id of the caller.
    """
    changes = {} if body.model == upstream_name and body.names_model else {"model": msgspec.json.encode(upstream_name)}
    if body.imposes_salt:
        changes["cache_salt"] = msgspec.json.encode(body.cache_salt)
    places = body.places
    if body.hides_session_id:
        raw, places = without(raw, (SESSION_FIELD,), places), None
    if body.streams and not body.asks_usage:
        return asking_usage(raw, changes, has_stream_options=body.has_stream_options, places=places)
    return spliced(raw, changes, places) if changes else raw


def keeps_no_response(_body: bytes) -> str | None:
    """Return None as the response id, because APIs with this function store no responses."""
    return None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Endpoint path, with all functions that depend on its API."""

    path: str
    parse: Parse
    media: bytes = JSON
    """Content type of requests to the endpoint."""
    upstream_body: UpstreamBody = json_upstream_body
    observer: MakeObserver = ChunkObserver
    usage_of: Callable[[bytes], Usage | None] = usage_of
    """Function that reads the token usage in an answer that is not a stream."""
    response_id_of: Callable[[bytes], str | None] = keeps_no_response
    """Function that reads the id of a stored answer that is not a stream. For a stream, the observer reports the id."""
    errors: ErrorShape = OPENAI
    summary: str = ""
    """Summary of the endpoint in one line, for the API description."""
    required: tuple[str, ...] = ()
    """Fields that the gateway requires in a request. The engine can require further fields."""

    def error_body(self, error: GatewayError, *, request_id: str | None = None) -> bytes:
        """Return the gateway's error *error* as the body of a response."""
        return self.errors.body(fault_of(error, request_id=request_id))

    def error_event(self, error: GatewayError, *, sequence_number: int = 0, request_id: str | None = None) -> bytes:
        """Return the gateway's error *error* as the last event of a stream."""
        return self.errors.event(fault_of(error, request_id=request_id), sequence_number)

    def normalized(self, status: int, body: bytes, *, model: str | None = None) -> bytes:
        """Return the error body *body* of a worker in the format of the endpoint. A body in this format is returned
        unchanged.

        If the engine of *model* does not have this endpoint, the error says so.
        """
        missing = None if model is None else missing_endpoint(self.path, model, status, body)
        return normalized(self.errors, status, body) if missing is None else self.errors.body(missing)

"""What differs between the endpoints that a worker answers. Pure: bytes in, values and bytes out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from gateway.body import Body
from gateway.endpoints.faults import OPENAI, ErrorShape, fault_of, normalised
from gateway.endpoints.missing import missing_endpoint
from gateway.errors import GatewayError
from gateway.splice import asking_usage, spliced
from gateway.sse import StreamTail, Tail
from gateway.usage import Usage, usage_of

JSON: Final = b"application/json"
FORM = b"multipart/form-data"


class Parse(Protocol):
    def __call__(self, raw: bytes, content_type: bytes, /) -> Body:
        """What routing must know of the body *raw*, which came as *content_type*.

        Raises:
            MalformedBody, InvalidField: as named.
        """
        ...


class UpstreamBody(Protocol):
    def __call__(self, raw: bytes, content_type: bytes, body: Body, upstream_name: str, /) -> bytes:
        """The caller's bytes as the worker gets them; *body* is what was read of them."""
        ...


class MakeTail(Protocol):
    def __call__(self, *, strip_usage: bool) -> Tail:
        """A watcher for one stream; *strip_usage* takes out what the caller has not asked for."""
        ...


def read_as_json(parse: Callable[[bytes], Body]) -> Parse:
    """*parse* for an endpoint that takes nothing but JSON."""

    def parse_json(raw: bytes, _content_type: bytes, /) -> Body:
        return parse(raw)

    return parse_json


def json_upstream_body(raw: bytes, _content_type: bytes, body: Body, upstream_name: str, /) -> bytes:
    """The caller's bytes with the worker's name of the model, asking for usage where a stream does not, and with the
    salt that the gateway imposes.
    """
    changes = {} if body.model == upstream_name and body.names_model else {"model": msgspec.json.encode(upstream_name)}
    if body.imposes_salt:
        changes["cache_salt"] = msgspec.json.encode(body.cache_salt)
    if body.streams and not body.asks_usage:
        return asking_usage(raw, changes, has_stream_options=body.has_stream_options, places=body.places)
    return spliced(raw, changes, body.places) if changes else raw


def keeps_no_response(_body: bytes) -> str | None:
    """The id of a response, where the API knows no such thing."""
    return None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path, and everything about it that the life of a request must not know."""

    path: str
    parse: Parse
    media: bytes = JSON
    """The content-type that it takes."""
    upstream_body: UpstreamBody = json_upstream_body
    tail: MakeTail = StreamTail
    usage_of: Callable[[bytes], Usage | None] = usage_of
    """The usage in an answer that does not stream."""
    response_id_of: Callable[[bytes], str | None] = keeps_no_response
    """Under which id the worker keeps an answer that does not stream; of a stream the tail knows it."""
    errors: ErrorShape = OPENAI
    summary: str = ""
    """One line for the description of the API."""
    required: tuple[str, ...] = ()
    """Fields without which the gateway refuses a body; the engine may want more."""

    def error_body(self, error: GatewayError, *, request_id: str | None = None) -> bytes:
        """The gateway's own *error* as the body of a response."""
        return self.errors.body(fault_of(error, request_id=request_id))

    def error_event(self, error: GatewayError, *, sequence_number: int = 0, request_id: str | None = None) -> bytes:
        """The gateway's own *error* as the last event of a stream that had begun."""
        return self.errors.event(fault_of(error, request_id=request_id), sequence_number)

    def normalised(self, status: int, body: bytes, *, model: str | None = None) -> bytes:
        """A worker's error *body* in the shape of this endpoint; as it came if it has that shape.

        Where the engine of *model* does not have this endpoint the error says so.
        """
        missing = None if model is None else missing_endpoint(self.path, model, status, body)
        return normalised(self.errors, status, body) if missing is None else self.errors.body(missing)

"""Messages of Envoy's external processing (ext_proc), as plain values of the gateway."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf import struct_pb2

from gateway.picker import wire
from gateway.picker.heads import DESTINATION, HeaderChanges
from gateway.protocol.headers import Headers

Message = Any
"""Generated message of protobuf, which has no types."""

NONE: Final = wire.NONE
BUFFERED: Final = wire.BUFFERED
BUFFERED_PARTIAL: Final = wire.BUFFERED_PARTIAL
FULL_DUPLEX_STREAMED: Final = wire.FULL_DUPLEX_STREAMED
WHOLE: Final = frozenset({BUFFERED, BUFFERED_PARTIAL})
"""Body modes in which Envoy sends a body in one message."""
HANDLED: Final = frozenset({NONE, *WHOLE, FULL_DUPLEX_STREAMED})
"""Modes of request bodies in which the picker works."""
HANDLED_ANSWERS: Final = frozenset({NONE, BUFFERED, FULL_DUPLEX_STREAMED})
"""Modes of answer bodies in which the picker works."""

MAX_PIECE_BYTES: Final = 62_000
"""Bytes in one piece of a streamed body. Envoy accepts at most 64 kB."""
SUBSET: Final = "x-gateway-destination-endpoint-subset"
SERVED: Final = "x-gateway-destination-endpoint-served"
SCORES: Final = "x-gateway-destination-endpoint-scores"
NO_SCORES: Final[Mapping[str, float]] = {}
SUBSET_SPACE: Final = "envoy.lb.subset_hint"
SPACE: Final = "envoy.lb"
_KNOWN_STATUSES: Final = wire.STATUSES
_SET: Final = wire.OVERWRITE_IF_EXISTS_OR_ADD
_ADD: Final = wire.APPEND_IF_EXISTS_OR_ADD


def request_in(raw: bytes) -> Message:
    """Return the message of Envoy in *raw*."""
    return wire.ProcessingRequest.FromString(raw)


def encoded(message: Message) -> bytes:
    """Return the bytes of the message *message* to Envoy."""
    raw: bytes = message.SerializeToString()
    return raw


def headers_in(message: Message) -> Headers:
    """Return the headers in the message about headers *message*, with pseudo headers such as ``:path``."""
    return [
        (header.key.lower().encode("latin-1"), header.raw_value or header.value.encode("utf-8"))
        for header in message.headers.headers
    ]


def body_modes(message: Message) -> tuple[int, int]:
    """Return the body modes of request and answer, which the first message of a stream names.

    Versions of Envoy that do not name them are expected to use `FULL_DUPLEX_STREAMED`.
    """
    if not message.HasField("protocol_config"):
        return FULL_DUPLEX_STREAMED, FULL_DUPLEX_STREAMED
    config = message.protocol_config
    return config.request_body_mode, config.response_body_mode


def subset_in(message: Message) -> frozenset[str] | None:
    """Return the endpoints that Envoy accepts for the request, or None if it accepts all.

    Gateways send the endpoints as a list or as one string with commas.
    """
    value = _metadata(message, SUBSET_SPACE, SUBSET)
    if value is None:
        return None
    if value.HasField("list_value"):
        said = [each.string_value for each in value.list_value.values]
    else:
        said = value.string_value.split(",")
    return frozenset(each.strip() for each in said if each.strip())


def served_in(message: Message) -> str | None:
    """Return the endpoint that has answered according to Envoy, or None if Envoy does not report it."""
    value = _metadata(message, SPACE, SERVED)
    return None if value is None else value.string_value.split(",")[-1].strip() or None


def _metadata(message: Message, space: str, name: str) -> Message | None:
    """Return the value *name* of Envoy's metadata in the name space *space*, or None if it is absent."""
    spaces = message.metadata_context.filter_metadata
    if space not in spaces or name not in spaces[space].fields:
        return None
    return spaces[space].fields[name]


def request_to(
    destination: str,
    changes: HeaderChanges,
    body: bytes,
    scores: Mapping[str, float] = NO_SCORES,
    *,
    has_trailers: bool,
) -> Iterator[Message]:
    """Yield the messages that send a request with the body *body* to the endpoints *destination*, for the mode
    `FULL_DUPLEX_STREAMED`.
    """
    yield head_to(destination, changes, scores)
    yield from request_rest(body, has_trailers=has_trailers)


def request_rest(body: bytes, *, has_trailers: bool) -> Iterator[Message]:
    """Yield the messages with the last bytes *body* of a streamed request body."""
    for piece, is_last in _pieces(body):
        is_end = is_last and not has_trailers
        yield wire.ProcessingResponse(request_body=wire.BodyResponse(response=_streamed(piece, ended=is_end)))
    if has_trailers:
        yield wire.ProcessingResponse(request_trailers=wire.TrailersResponse())


def request_pieces(data: bytes) -> Iterator[Message]:
    """Yield the messages with the bytes *data* of a streamed request body that continues."""
    for piece, _ in _pieces(data):
        yield wire.ProcessingResponse(request_body=wire.BodyResponse(response=_streamed(piece, ended=False)))


def head_to(destination: str, changes: HeaderChanges, scores: Mapping[str, float] = NO_SCORES) -> Message:
    """Return the message that sends the headers of a request to the endpoints *destination*. Its body follows, or Envoy
    does not show it.
    """
    common = wire.CommonResponse(header_mutation=_mutation(changes), clear_route_cache=True)
    return wire.ProcessingResponse(
        request_headers=wire.HeadersResponse(response=common), dynamic_metadata=_destination(destination, scores)
    )


def buffered_request_to(
    destination: str, changes: HeaderChanges, body: bytes | None, scores: Mapping[str, float] = NO_SCORES
) -> Message:
    """Return the message that sends a request to the endpoints *destination*, for the modes in `WHOLE`. *body* is the
    new body, or None to keep it.
    """
    common = wire.CommonResponse(
        header_mutation=_mutation(changes),
        body_mutation=None if body is None else wire.BodyMutation(body=body),
        clear_route_cache=True,
    )
    return wire.ProcessingResponse(
        request_body=wire.BodyResponse(response=common), dynamic_metadata=_destination(destination, scores)
    )


def request_continued() -> Message:
    """Return the message that lets Envoy send the body after the headers of a request."""
    return wire.ProcessingResponse(request_headers=wire.HeadersResponse())


def request_body_continued(*, ended: bool) -> Message:
    """Return the message that ends a streamed request body without further bytes, or keeps a buffered body."""
    return wire.ProcessingResponse(request_body=wire.BodyResponse(response=_streamed(b"", ended=ended)))


def request_trailers_continued() -> Message:
    """Return the message that keeps the trailers of a request."""
    return wire.ProcessingResponse(request_trailers=wire.TrailersResponse())


def answer_continued() -> Message:
    """Return the message that keeps the headers of an answer."""
    return wire.ProcessingResponse(response_headers=wire.HeadersResponse())


def answer_head(changes: HeaderChanges) -> Message:
    """Return the message that changes the headers of an answer."""
    common = wire.CommonResponse(header_mutation=_mutation(changes))
    return wire.ProcessingResponse(response_headers=wire.HeadersResponse(response=common))


def answer_pieces(data: bytes, *, ended: bool) -> Iterator[Message]:
    """Yield the messages with the bytes *data* of a streamed answer, which ends with them if *ended* is true."""
    for piece, is_last in _pieces(data):
        common = _streamed(piece, ended=ended and is_last)
        yield wire.ProcessingResponse(response_body=wire.BodyResponse(response=common))


def buffered_answer(changes: HeaderChanges, body: bytes) -> Message:
    """Return the message that replaces the headers and the body of an answer, for the mode `BUFFERED`."""
    common = wire.CommonResponse(header_mutation=_mutation(changes), body_mutation=wire.BodyMutation(body=body))
    return wire.ProcessingResponse(response_body=wire.BodyResponse(response=common))


def answer_trailers_continued() -> Message:
    """Return the message that keeps the trailers of an answer."""
    return wire.ProcessingResponse(response_trailers=wire.TrailersResponse())


def immediate(status: int, headers: Headers, body: bytes) -> Message:
    """Return the message with which Envoy answers a request itself, without a worker."""
    code = status if status in _KNOWN_STATUSES else status // 100 * 100
    sent = [header for header in headers if header[0] != b"content-length"]
    return wire.ProcessingResponse(
        immediate_response=wire.ImmediateResponse(
            status=wire.HttpStatus(code=code), headers=_mutation(HeaderChanges(sent, [])), body=body
        )
    )


def _streamed(piece: bytes, *, ended: bool) -> Message:
    streamed = wire.StreamedBodyResponse(body=piece, end_of_stream=ended)
    return wire.CommonResponse(body_mutation=wire.BodyMutation(streamed_response=streamed))


def _pieces(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield *data* in pieces that Envoy accepts, each with whether it is the last one. An empty body is one piece."""
    if len(data) <= MAX_PIECE_BYTES:
        yield data, True
        return
    for start in range(0, len(data), MAX_PIECE_BYTES):
        yield data[start : start + MAX_PIECE_BYTES], start + MAX_PIECE_BYTES >= len(data)


def _destination(destination: str, scores: Mapping[str, float]) -> Message:
    values: dict[str, Any] = {DESTINATION.decode("ascii"): destination}
    if scores:
        values[SCORES] = dict(scores)
    metadata = struct_pb2.Struct()
    metadata.update({SPACE: values})
    return metadata


def _mutation(changes: HeaderChanges) -> Message:
    seen: set[bytes] = set()
    options = []
    for name, value in changes.set:
        header = wire.HeaderValue(key=name.decode("latin-1"), raw_value=value)
        options.append(wire.HeaderValueOption(header=header, append_action=_ADD if name in seen else _SET))
        seen.add(name)
    removed = [name.decode("latin-1") for name in changes.removed]
    return wire.HeaderMutation(set_headers=options, remove_headers=removed)

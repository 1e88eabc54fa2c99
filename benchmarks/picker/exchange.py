"""One request as Envoy plays it to an endpoint picker, in the body mode FULL_DUPLEX_STREAMED."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.picker import wire
from benchmarks.picker.http2 import Call, Connection

PATH = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
DESTINATION = b"x-gateway-destination-endpoint"
PIECE_BYTES = 16_384
"""Bytes of a request body in one message, as Envoy reads them from a connection."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a worker, as messages of Envoy."""

    head: bytes
    pieces: Sequence[bytes]

    @classmethod
    def of(cls, body: bytes) -> "Answer":
        headers = [(":status", "200"), ("content-type", "application/json"), ("content-length", str(len(body)))]
        return cls(
            wire.headers_message(wire.RESPONSE_HEADERS, headers),
            [wire.body_message(wire.RESPONSE_BODY, body, is_last=True)],
        )


@dataclass(frozen=True, slots=True)
class Request:
    """Request of a caller, as messages of Envoy."""

    messages: Sequence[bytes]
    length: int
    """Bytes of the body, which the picker must return."""

    @classmethod
    def of(cls, body: bytes, *, key: str = "benchmark") -> "Request":
        headers = [
            (":authority", "inference.example"),
            (":path", "/v1/chat/completions"),
            (":method", "POST"),
            (":scheme", "http"),
            ("accept", "*/*"),
            ("authorization", f"Bearer {key}"),
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("user-agent", "benchmark"),
            ("x-forwarded-proto", "http"),
            ("x-request-id", "2f6cdd5c-1d4e-4f3b-9f5c-6b1f5a1c3a52"),
        ]
        head = wire.headers_message(wire.REQUEST_HEADERS, headers, mode=wire.FULL_DUPLEX_STREAMED)
        starts = range(0, len(body), PIECE_BYTES)
        pieces = [
            wire.body_message(
                wire.REQUEST_BODY, body[start : start + PIECE_BYTES], is_last=start + PIECE_BYTES >= len(body)
            )
            for start in starts
        ]
        return cls([head, *pieces], len(body))


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that the picker took for one request."""

    pick_s: float
    """Time from the headers of the request until the endpoint and the whole body have arrived."""
    answer_s: float
    """Time from the headers of the answer until its headers and its body have arrived."""

    @property
    def added_s(self) -> float:
        """Time that the picker adds to the request."""
        return self.pick_s + self.answer_s


class Exchange:
    """One request. *on_done* gets the times, or None if the picker did not do what it must."""

    __slots__ = (
        "_answer",
        "_answered_at",
        "_began_at",
        "_call",
        "_got",
        "_is_named",
        "_on_done",
        "_picked_at",
        "_request",
    )

    def __init__(
        self, connection: Connection, request: Request, answer: Answer, on_done: Callable[[Times | None], None]
    ) -> None:
        """Send the request."""
        self._request = request
        self._answer = answer
        self._on_done: Callable[[Times | None], None] | None = on_done
        self._got = 0
        self._is_named = False
        self._picked_at = self._answered_at = 0.0
        self._began_at = time.perf_counter()
        self._call: Call = connection.call(self._take, self._ended)
        for message in request.messages:
            self._call.send(message)

    def _take(self, message: bytes) -> None:
        kind, content = wire.kind_and_content(message)
        if kind == wire.HEADERS_OF_REQUEST:
            self._is_named = DESTINATION in content
        elif kind == wire.BODY_OF_REQUEST:
            piece, is_last = wire.streamed_piece_in(content)
            self._got += len(piece)
            if is_last:
                self._picked()
        elif kind == wire.BODY_OF_ANSWER:
            _, is_last = wire.streamed_piece_in(content)
            if is_last:
                ended_at = time.perf_counter()
                self._conclude(Times(self._picked_at - self._began_at, ended_at - self._answered_at))
                self._call.end()
        elif kind != wire.HEADERS_OF_ANSWER:
            self._conclude(None)

    def _picked(self) -> None:
        self._picked_at = time.perf_counter()
        if not self._is_named or self._got != self._request.length:
            self._conclude(None)
            return
        self._answered_at = time.perf_counter()
        self._call.send(self._answer.head)
        for piece in self._answer.pieces:
            self._call.send(piece)

    def _ended(self) -> None:
        """Note that the picker has ended the call. It failed unless the request has ended."""
        self._conclude(None)

    def _conclude(self, times: Times | None) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(times)

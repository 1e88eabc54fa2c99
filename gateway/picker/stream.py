"""One request of Envoy: a stream of messages in both directions, connected to the gateway's application.

The gateway serves the request as if a caller had sent it over HTTP, with all phases of `gateway.proxy`. The attempt to
send it to a worker is an answer to Envoy, and Envoy's messages about the answer are the reply of the worker.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from gateway.backends.backend import Call
from gateway.picker import messages
from gateway.picker.answer import Answer, WorkerHead
from gateway.picker.chunks import Chunks
from gateway.picker.heads import DESTINATION, HeaderChanges, request_changes, without_length
from gateway.picker.messages import NO_SCORES
from gateway.picker.passed_body import PassedBody
from gateway.picker.reply import EnvoyReply
from gateway.protocol.errors import BodyTooLarge, InvalidField, NoWorker
from gateway.protocol.headers import Headers

SERVED_HEADER = b"x-conformance-test-served-endpoint"
"""Header in which the conformance tests of the Gateway API Inference Extension expect the endpoint that answered."""
SELECTED_HEADER = b"x-conformance-test-selected-endpoint"
"""Header in which these tests expect the endpoint that the picker has chosen."""

RETRY_AFTER_S: Final = 2.0
"""Seconds in the `retry-after` header if no worker can answer, about the interval of health checks."""
_MAX_BATCH_BYTES: Final = 2**20
"""Bytes to send to Envoy without waiting for its permission."""
_MIN_READ_BYTES: Final = 2**18
"""Bytes of a request body to read together. Envoy sends pieces of 16 kB, and each read costs a turn of the loop."""


class Line(Protocol):
    """Connection to Envoy for one request, as far as the stream needs it."""

    def send(self, messages: Sequence[bytes]) -> None:
        """Send *messages*. Do nothing after the end of the connection."""
        ...

    async def drain(self) -> None:
        """Wait while Envoy does not take what was sent."""
        ...

    def resume(self) -> None:
        """Permit Envoy to send more if the stream is no longer full."""
        ...


class EnvoyStream:
    """State of one request between Envoy and the gateway. Implements `gateway.picker.delivery.Wire`."""

    def __init__(self, line: Line, head: messages.Message, *, reports_served: bool) -> None:
        """Create the state of the request whose headers are in the message *head*. If *reports_served* is true, headers
        of the answer name the endpoint that has answered and the chosen one.
        """
        self._line = line
        self._mode, answer_mode = messages.body_modes(head)
        self.headers = messages.headers_in(head.request_headers)
        self._body = Chunks(line.resume, min_bytes=_MIN_READ_BYTES)
        self._passed: PassedBody | None = None  # of a body that Envoy sends to the worker while it arrives
        self._is_read = False  # the application has received the whole body
        self._is_cut = False  # Envoy has ended the stream before the end of the body
        self._is_partial = False  # Envoy has sent a part of the body, because it cannot keep the whole body
        self._has_trailers = False
        self._answered = asyncio.Event()
        self._gone = asyncio.Event()
        self._is_closed = False
        self._reports_served = reports_served
        self._served: str | None = None
        self._selected = b""
        self._reply = Chunks(line.resume)
        self.response = Answer(self._write, answer_mode, self._said)
        self.shows_answers = answer_mode != messages.NONE
        """Whether the body of the answer passes through the gateway."""
        self.is_passed_on = False
        """Whether the request goes to a worker without the phases of the proxy."""
        self.is_handled = self._mode in messages.HANDLED and answer_mode in messages.HANDLED_ANSWERS
        """Whether the picker works with Envoy's body modes."""
        self.shows_body = self._mode != messages.NONE and not head.request_headers.end_of_stream
        """Whether the body of the request passes through the gateway."""
        self.can_begin = self.shows_body and self._mode == messages.FULL_DUPLEX_STREAMED
        """Whether Envoy can send the request to a worker before it has sent the body to the gateway."""
        if not self.shows_body:
            self._body.end()

    # ---- messages of Envoy

    def take(self, message: messages.Message) -> None:
        """Take the next message of Envoy about the request."""
        kind = message.WhichOneof("request")
        if kind == "request_body":
            self._request_body(message)
        elif kind == "response_body":
            self._response_body(message)
        elif kind == "response_headers":
            self._response_headers(message)
        elif kind == "request_trailers":
            self._request_trailers()
        elif kind == "response_trailers":
            self._response_trailers()

    @property
    def is_full(self) -> bool:
        """Whether Envoy must wait until the gateway has read more of the bodies."""
        return self._body.is_full or self._reply.is_full

    def begin(self) -> None:
        """Let Envoy send the body if it waits for that."""
        if self.shows_body and self._mode in messages.WHOLE:
            self._send(messages.request_continued())

    def exceeds(self, max_bytes: int) -> bool:
        """Return whether Envoy keeps the whole body in memory, and the headers announce more than *max_bytes*."""
        if not self.shows_body or self._mode != messages.BUFFERED:
            return False
        announced = next((value for name, value in self.headers if name == b"content-length"), b"")
        return announced.isdigit() and int(announced) > max_bytes

    def close(self) -> None:
        """Record that Envoy has ended the stream. The gateway cancels the request, unless its answer is complete, or
        the answer does not pass through the gateway, whose end is then the end of the stream.
        """
        if not self.shows_answers:
            self._note_head(WorkerHead(200, [], ended=True))
            self._reply.end()
        if not self._body.ended:
            self._is_cut = True
            self._body.end()
        self._is_closed = True
        if self.shows_answers:
            self._gone.set()

    def _request_body(self, message: messages.Message) -> None:
        if self._body.ended:
            return  # some versions of Envoy end a long body twice
        self._body.put(message.request_body.body)
        self._is_partial = self._mode == messages.BUFFERED_PARTIAL and not message.request_body.end_of_stream
        if message.request_body.end_of_stream or self._mode in messages.WHOLE:
            self._body.end()

    def _request_trailers(self) -> None:
        if self._mode == messages.FULL_DUPLEX_STREAMED and not self._body.ended:
            self._has_trailers = True
            self._body.end()
        else:
            self._send(messages.request_trailers_continued())

    def _response_headers(self, message: messages.Message) -> None:
        headers = messages.headers_in(message.response_headers)
        status = int(next((value for name, value in headers if name == b":status"), b"502"))
        self._served = messages.served_in(message)
        ended = message.response_headers.end_of_stream
        self._note_head(WorkerHead(status, headers, ended=ended))
        if ended:
            self._reply.end()
        if self._passed is not None:
            self._body.end()  # a worker that has answered needs no more
        if self.response.is_immediate:
            return
        if not self.shows_answers or (self.response.mode == messages.BUFFERED and not ended):
            self._send(messages.answer_continued())

    def _response_body(self, message: messages.Message) -> None:
        self._reply.put(message.response_body.body)
        if message.response_body.end_of_stream or self.response.mode == messages.BUFFERED:
            self._reply.end()

    def _response_trailers(self) -> None:
        head = self.response.head
        if self.response.mode == messages.FULL_DUPLEX_STREAMED and head is not None and not self._reply.ended:
            head.has_trailers = True
            self._reply.end()
        else:
            self._send(messages.answer_trailers_continued())

    def _note_head(self, head: WorkerHead) -> None:
        if not self._answered.is_set():
            self.response.head = head
            self._answered.set()

    # ---- the caller, as the gateway's application sees it

    async def receive(self) -> dict[str, Any]:
        """Return the next part of the request body, and after the body the end of the connection, as in ASGI.

        Raises:
            BodyTooLarge: if Envoy cannot keep the whole body in memory.
            NoWorker: if a worker has answered before it had the whole body.
        """
        if not self._is_read:
            data = await self._body.get()
            if self._passed is not None:
                await self._pass_on(self._passed.take(data))
            if self._is_partial:
                text = "The body is larger than the buffer of the proxy in front of the gateway, or has trailers"
                raise BodyTooLarge(f"{text} (per_connection_buffer_limit_bytes of Envoy).")
            if not self._is_cut:
                self._is_read = self._body.ended and self._body.is_empty
                return {"type": "http.request", "body": data, "more_body": not self._is_read}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    def drop_body(self) -> None:
        """Drop the rest of the request body, because the request was answered without it."""
        self._body.discard()

    # ---- the worker, as the gateway's proxy sees it

    async def forward(self, call: Call, destination: str, scores: Mapping[str, float] = NO_SCORES) -> None:
        """Let Envoy send *call* to one of the endpoints *destination* (see `Wire.forward`)."""
        changes = self._changes(call, destination, length=len(call.body) if self.shows_body else None)
        if not self.shows_body:
            await self._write([messages.head_to(destination, changes, scores)])
        elif self._mode in messages.WHOLE:
            await self._write([messages.buffered_request_to(destination, changes, call.body, scores)])
        else:
            trailers = self._has_trailers
            await self._write(messages.request_to(destination, changes, call.body, scores, has_trailers=trailers))

    async def begin_to(self, call: Call, destination: str) -> None:
        """Let Envoy send *call* to one of the endpoints *destination* while the body arrives. The body of *call* is not
        known yet. Call `complete` after it was checked.
        """
        self._passed = PassedBody()
        self._body.min_bytes = 1  # the worker gets the body as it arrives
        changes = without_length(self.headers, self._changes(call, destination, length=None))
        await self._write([messages.head_to(destination, changes)])

    async def complete(self, call: Call) -> None:
        """Let Envoy send the rest of the body of *call*, whose headers `begin_to` has sent.

        Raises:
            InvalidField: if a worker has got bytes that differ from those of *call*.
        """
        assert self._passed is not None, "begin_to was called"
        rest = self._passed.rest(call.body)
        if rest is None:
            text = "The gateway has to change this body, whose beginning was already sent to a worker"
            raise InvalidField(f"{text}. Send the request without a session header.")
        if self._answered.is_set():
            return  # Envoy expects no body after an answer
        await self._write(messages.request_rest(rest, has_trailers=self._has_trailers))

    async def _pass_on(self, data: bytes) -> None:
        """Let Envoy send *data* to the worker. Raise NoWorker if the worker has already answered."""
        head = self.response.head
        if head is not None:
            text = f"A worker answered with status {head.status} before it had the whole body"
            raise NoWorker(text, retry_after_s=RETRY_AFTER_S)
        if data:
            await self._write(messages.request_pieces(data))

    async def reply(self) -> tuple[EnvoyReply, str | None]:
        """Return the worker's answer after its headers have arrived (see `Wire.reply`)."""
        await self._answered.wait()
        head = self.response.head
        assert head is not None, "an answer has headers"
        headers = [header for header in head.headers if not header[0].startswith(b":")]
        return EnvoyReply(head.status, headers, self._reply), self._served

    def _changes(self, call: Call, destination: str, *, length: int | None) -> HeaderChanges:
        """Return the changes of headers that send *call*, whose body has *length* bytes (see `request_changes`)."""
        asked = next((value for name, value in self.headers if name == b":path"), b"")
        endpoints = destination.encode("ascii")
        self._selected = endpoints.partition(b",")[0]
        wanted = [*call.headers, (DESTINATION, endpoints)]
        return request_changes(self.headers, wanted, path=None if call.path == asked else call.path, length=length)

    def _send(self, message: messages.Message) -> None:
        """Send a short message. If Envoy has ended the stream, do nothing."""
        if not self._is_closed:
            self._line.send([messages.encoded(message)])

    async def _write(self, sent: Iterable[messages.Message]) -> None:
        """Send messages, no faster than Envoy takes them. If Envoy has ended the stream, do nothing."""
        batch: list[bytes] = []
        size = 0
        for message in sent:
            if self._is_closed:
                return
            batch.append(messages.encoded(message))
            size += len(batch[-1])
            if size >= _MAX_BATCH_BYTES:
                self._line.send(batch)
                await self._line.drain()
                batch, size = [], 0
        if not self._is_closed:
            self._line.send(batch)
            await self._line.drain()

    def _said(self) -> Headers:
        """Return the headers that the picker adds to the answer of a worker."""
        if not self._reports_served:
            return []
        served = [] if self._served is None else [(SERVED_HEADER, self._served.encode("latin-1"))]
        return [*served, (SELECTED_HEADER, self._selected)]

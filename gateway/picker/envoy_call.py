"""Call in which Envoy asks about one request."""

import asyncio
from collections.abc import Callable

from google.protobuf.message import DecodeError

from gateway.picker import messages
from gateway.picker.http2.call import FAILED_PRECONDITION, INVALID_ARGUMENT, GrpcCall
from gateway.picker.stream import EnvoyStream

Begin = Callable[[EnvoyStream, messages.Message], asyncio.Task[None]]
"""Function that serves a request. It gets the first message of Envoy too."""


class EnvoyCall:
    """GrpcCall for one request. Implements `gateway.picker.http2.call.Handler`."""

    def __init__(self, call: GrpcCall, begin: Begin, *, reports_served: bool) -> None:
        self._call = call
        self._begin = begin
        self._reports_served = reports_served
        self._stream: EnvoyStream | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether Envoy must wait (see `Handler.is_full`)."""
        return self._stream is not None and self._stream.is_full

    def on_message(self, message: bytes) -> None:
        """Begin the request with the first message, and pass on the others."""
        try:
            decoded = messages.request_in(message)
        except DecodeError:
            self._fail(INVALID_ARGUMENT, "a message is malformed")
            return
        if self._stream is not None:
            self._stream.take(decoded)
        elif decoded.WhichOneof("request") != "request_headers":
            self._fail(FAILED_PRECONDITION, "the first message must be request_headers")
        else:
            self._stream = EnvoyStream(self._call, decoded, reports_served=self._reports_served)
            self._task = self._begin(self._stream, decoded)

    def on_end(self) -> None:
        """End the request and the call, because Envoy needs nothing more."""
        self._call.finish()
        self.on_lost()

    def on_lost(self) -> None:
        """End the request."""
        if self._stream is None or self._task is None:
            return
        self._stream.close()
        if self._stream.is_passed_on:
            self._task.cancel()

    def _fail(self, status: int, text: str) -> None:
        self._call.finish(status, text)
        self.on_lost()

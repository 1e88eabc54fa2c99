"""Envoy, as the picker sees it: a gRPC client that follows the order of messages of the filter ext_proc."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
from google.protobuf import struct_pb2

from gateway.picker import wire
from gateway.picker.picker import Picker
from gateway.picker.rules import PickerRules
from gateway.picker.server import serving
from gateway.protocol.headers import Headers
from gateway.server.stop import Stop
from tests.fakes.backends import Fake
from tests.gateway.examples import Clock, the_models
from tests.gateway.proxy.stage import Stage

NONE = wire.NONE
BUFFERED = wire.BUFFERED
BUFFERED_PARTIAL = wire.BUFFERED_PARTIAL
STREAMED = wire.STREAMED
FULL_DUPLEX = wire.FULL_DUPLEX_STREAMED
JSON_TYPE = (b"content-type", b"application/json")
WAIT_S = 60.0


class At(Fake):
    """Worker with an address. Nothing is sent to it: Envoy does that."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address

    @property
    def url(self) -> str:
        return f"http://{self._address}"


class Envoy:
    """One HTTP request that passes through Envoy."""

    def __init__(
        self,
        channel: Any,
        *,
        request_mode: int | None = FULL_DUPLEX,
        answer_mode: int = FULL_DUPLEX,
    ) -> None:
        """Open a stream to the picker. If *request_mode* is None, the modes are not named."""
        self._call = channel.stream_stream(
            "/envoy.service.ext_proc.v3.ExternalProcessor/Process",
            request_serializer=wire.ProcessingRequest.SerializeToString,
            response_deserializer=wire.ProcessingResponse.FromString,
        )()
        self._request_mode = request_mode
        self._answer_mode = answer_mode
        self.destination: str | None = None
        self.metadata: str | None = None
        self.scores: dict[str, float] | None = None
        self.sent: dict[str, str] = {}
        """Headers that the picker sets on the request."""
        self.removed: list[str] = []
        self.body: bytes | None = None
        """Body of the request for the worker."""
        self.answer_headers: dict[str, str] = {}
        """Headers that the picker sets on the answer, or those of the answer that Envoy gives itself."""
        self.answer = b""
        self.status: int | None = None
        """Status of the answer that Envoy gives itself."""

    async def ask(
        self,
        *pieces: bytes,
        headers: Headers | None = None,
        path: bytes = b"/v1/chat/completions",
        method: bytes = b"POST",
        subset: list[str] | str | None = None,
        trailers: bool = False,
        is_partial: bool = False,
    ) -> "Envoy":
        """Send the request, and read until its body is complete or the picker has answered. If *is_partial* is true,
        the body is only a part of the whole one.
        """
        await self.send_head(headers or [JSON_TYPE], path=path, method=method, subset=subset, ended=not pieces)
        if pieces and self._request_mode in {BUFFERED, BUFFERED_PARTIAL}:
            await self.read_continued()
            await self._write(request_body=wire.HttpBody(body=b"".join(pieces), end_of_stream=not is_partial))
        elif self._request_mode != NONE:
            for place, piece in enumerate(pieces):
                ended = place == len(pieces) - 1 and not trailers
                await self._write(request_body=wire.HttpBody(body=piece, end_of_stream=ended))
            if trailers:
                await self._write(request_trailers=wire.HttpTrailers())
        await self.read_pick(has_body=bool(pieces) and self._request_mode != NONE, trailers=trailers)
        return self

    async def send_head(
        self,
        headers: Headers,
        *,
        path: bytes = b"/v1/chat/completions",
        method: bytes = b"POST",
        subset: list[str] | str | None = None,
        ended: bool = False,
    ) -> None:
        """Send only the headers of the request."""
        message: dict[str, Any] = {}
        if self._request_mode is not None:
            message["protocol_config"] = wire.ProtocolConfiguration(
                request_body_mode=self._request_mode, response_body_mode=self._answer_mode
            )
        if subset is not None:
            message["metadata_context"] = _metadata(
                "envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset", subset
            )
        own = [(b":method", method), (b":path", path), (b":authority", b"localhost")]
        await self._write(request_headers=wire.HttpHeaders(headers=_map(own + headers), end_of_stream=ended), **message)

    async def read_continued(self) -> None:
        """Read the message after which the body is sent, in the mode `BUFFERED`."""
        assert (await self._read()).HasField("request_headers")

    async def read_pick(self, *, has_body: bool, trailers: bool = False) -> None:
        """Read the picker's messages about the request."""
        first = await self._read()
        if first.HasField("immediate_response"):
            self._note_immediate(first)
            return
        buffered = self._request_mode in {BUFFERED, BUFFERED_PARTIAL} and has_body
        common = (first.request_body if buffered else first.request_headers).response
        assert common.clear_route_cache
        self._note_mutation(common.header_mutation, self.sent)
        self.removed = list(common.header_mutation.remove_headers)
        self.destination = self.sent.get("x-gateway-destination-endpoint")
        values = first.dynamic_metadata["envoy.lb"]
        self.metadata = values["x-gateway-destination-endpoint"]
        if "x-gateway-destination-endpoint-scores" in values:
            self.scores = dict(values["x-gateway-destination-endpoint-scores"])
        if buffered:
            self.body = common.body_mutation.body
        elif has_body:
            self.body, ended = await self._streamed("request_body", until_trailers=trailers)
            assert ended is not trailers

    async def send_piece(self, piece: bytes, *, ended: bool = False) -> None:
        """Send a part of the body."""
        await self._write(request_body=wire.HttpBody(body=piece, end_of_stream=ended))

    async def read_begun(self) -> None:
        """Read the picker's messages about the headers, before the body is complete."""
        await self.read_pick(has_body=False)

    async def read_piece(self) -> bytes:
        """Read a part of the body for the worker, which is not the last one."""
        streamed = (await self._read()).request_body.response.body_mutation.streamed_response
        assert not streamed.end_of_stream
        piece: bytes = streamed.body
        return piece

    async def read_rest(self) -> bytes | None:
        """Return the rest of the body for the worker, or None if the picker has answered."""
        message = await self._read()
        if message.HasField("immediate_response"):
            self._note_immediate(message)
            return None
        streamed = message.request_body.response.body_mutation.streamed_response
        if streamed.end_of_stream:
            rest: bytes = streamed.body
            return rest
        begin: bytes = streamed.body
        return begin + (await self._streamed("request_body", until_trailers=False))[0]

    async def answered(
        self,
        status: int,
        *pieces: bytes,
        headers: Headers | None = None,
        served: str | None = None,
        trailers: bool = False,
    ) -> "Envoy":
        """Pass on the answer of a worker, and read the answer for the caller."""
        message: dict[str, Any] = {}
        if served is not None:
            message["metadata_context"] = _metadata("envoy.lb", "x-gateway-destination-endpoint-served", served)
        own = [(b":status", b"%d" % status)]
        shown = _map(own + (headers or [JSON_TYPE]))
        await self._write(response_headers=wire.HttpHeaders(headers=shown, end_of_stream=not pieces), **message)
        if self._answer_mode == NONE:
            self._note_answer_head(await self._read())
            return self
        if self._answer_mode == BUFFERED and pieces:
            assert (await self._read()).HasField("response_headers")
            await self._write(response_body=wire.HttpBody(body=b"".join(pieces), end_of_stream=True))
        else:
            for place, piece in enumerate(pieces):
                ended = place == len(pieces) - 1 and not trailers
                await self._write(response_body=wire.HttpBody(body=piece, end_of_stream=ended))
            if trailers:
                await self._write(response_trailers=wire.HttpTrailers())
        await self._read_answer(has_body=bool(pieces), trailers=trailers)
        return self

    async def begin_answer(self, *pieces: bytes) -> None:
        """Pass on the beginning of a streamed answer, and read the headers for the caller."""
        shown = _map([(b":status", b"200"), (b"content-type", b"text/event-stream")])
        await self._write(response_headers=wire.HttpHeaders(headers=shown))
        for piece in pieces:
            await self._write(response_body=wire.HttpBody(body=piece))
        self._note_answer_head(await self._read())

    async def _read_answer(self, *, has_body: bool, trailers: bool) -> None:
        message = await self._read()
        if message.HasField("immediate_response"):
            self._note_immediate(message)
        elif message.HasField("response_body"):
            common = message.response_body.response
            self._note_mutation(common.header_mutation, self.answer_headers)
            self.answer = common.body_mutation.body
        else:
            self._note_answer_head(message)
            if has_body:
                self.answer, ended = await self._streamed("response_body", until_trailers=trailers)
                assert ended is not trailers

    def _note_answer_head(self, message: Any) -> None:
        assert message.HasField("response_headers")
        self._note_mutation(message.response_headers.response.header_mutation, self.answer_headers)

    async def _streamed(self, name: str, *, until_trailers: bool) -> tuple[bytes, bool]:
        body = b""
        while True:
            message = await self._read()
            if until_trailers and message.WhichOneof("response").endswith("_trailers"):
                return body, False
            streamed = getattr(message, name).response.body_mutation.streamed_response
            assert len(streamed.body) <= 62_000
            body += streamed.body
            if streamed.end_of_stream:
                return body, True

    async def leave(self) -> None:
        """End the stream, as Envoy does when the caller has gone."""
        self._call.cancel()
        await asyncio.wait_for(self._call.code(), WAIT_S)

    async def close(self) -> None:
        """End the stream after the answer is complete."""
        await self._call.done_writing()
        await asyncio.wait_for(self._call.code(), WAIT_S)

    @property
    def error(self) -> dict[str, Any]:
        """The error in OpenAI's format."""
        error: dict[str, Any] = json.loads(self.answer)["error"]
        return error

    def _note_immediate(self, message: Any) -> None:
        self.status = message.immediate_response.status.code
        self._note_mutation(message.immediate_response.headers, self.answer_headers)
        self.answer = message.immediate_response.body

    def _note_mutation(self, mutation: Any, noted: dict[str, str]) -> None:
        for option in mutation.set_headers:
            noted[option.header.key] = option.header.raw_value.decode()

    async def _write(self, **message: Any) -> None:
        await self._call.write(wire.ProcessingRequest(**message))

    async def _read(self) -> Any:
        message = await asyncio.wait_for(self._call.read(), WAIT_S)
        assert message is not grpc.aio.EOF, "the picker has ended the stream"
        return message


def a_picker(stage: Stage, **rules: Any) -> Picker:
    """Return a picker over the proxy of *stage*."""
    return Picker(
        stage.proxy,
        _no_api,
        the_models(stage.model),
        PickerRules(**rules),
        needs_keys=lambda: not stage.tenancy.is_open,
        clock=stage.clock,
    )


def a_stop() -> Stop:
    """Return the state of a stop that has a long delay."""
    return Stop(delay_s=3600.0, clock=Clock())


@asynccontextmanager
async def picking(stage: Stage, **rules: Any) -> AsyncIterator[Callable[..., Envoy]]:
    """Serve the picker over the proxy of *stage*. Yield a function that opens a stream of Envoy."""
    addresses: list[str] = []
    async with asyncio.TaskGroup() as tasks:
        sweep = tasks.create_task(stage.disconnects.run())
        async with (
            serving(
                a_picker(stage, **rules), PickerRules(listen="127.0.0.1:0", grace_s=0.0), addresses.append, a_stop()
            ),
            grpc.aio.insecure_channel(addresses[0]) as channel,
        ):

            def opened(**how: Any) -> Envoy:
                return Envoy(channel, **how)

            yield opened
        sweep.cancel()


async def _no_api(scope: Any, _: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [JSON_TYPE]})
    await send({"type": "http.response.body", "body": b'{"path":"%b"}' % scope["path"].encode()})


def _map(headers: Sequence[tuple[bytes, bytes]]) -> Any:
    return wire.HeaderMap(headers=[wire.HeaderValue(key=name.decode(), raw_value=value) for name, value in headers])


def _metadata(space: str, name: str, value: list[str] | str) -> Any:
    struct = struct_pb2.Struct()
    struct.update({name: value})
    return wire.Metadata(filter_metadata={space: struct})

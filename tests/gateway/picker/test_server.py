"""The gRPC server begins and ends with the gateway."""

import socket

import grpc
import grpc.aio
import pytest

from gateway.picker import wire
from gateway.picker.rules import PickerRules
from gateway.picker.server import serving
from gateway.server.listener import ServerError
from tests.gateway.examples import a_model
from tests.gateway.picker.envoy import At, a_picker, a_stop
from tests.gateway.proxy.stage import Stage


async def test_the_address_is_announced() -> None:
    """Port 0 is any free port."""
    addresses: list[str] = []
    async with serving(
        a_picker(Stage(a_model(At("10.0.0.1:1")))), PickerRules(listen="127.0.0.1:0"), addresses.append, a_stop()
    ):
        [address] = addresses

    host, port = address.split(":")
    assert ("127.0.0.1", True) == (host, int(port) > 0)


async def test_a_port_that_is_in_use_is_an_error() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        picker = a_picker(Stage(a_model(At("10.0.0.1:1"))))
        with pytest.raises(
            ServerError, match=r"Cannot listen on 127\.0\.0\.1 port \d+: Address already in use \(picker.listen\)\."
        ):
            async with serving(picker, PickerRules(listen=address), print, a_stop()):
                pass


async def test_a_stream_begins_with_headers() -> None:
    addresses: list[str] = []
    picker = a_picker(Stage(a_model(At("10.0.0.1:1"))))
    async with (
        serving(picker, PickerRules(listen="127.0.0.1:0", grace_s=0.0), addresses.append, a_stop()),
        grpc.aio.insecure_channel(addresses[0]) as channel,
    ):
        call = channel.stream_stream(
            "/envoy.service.ext_proc.v3.ExternalProcessor/Process",
            request_serializer=wire.ProcessingRequest.SerializeToString,
        )()
        await call.write(wire.ProcessingRequest(request_body=wire.HttpBody(body=b"x")))

        assert grpc.StatusCode.FAILED_PRECONDITION == await call.code()

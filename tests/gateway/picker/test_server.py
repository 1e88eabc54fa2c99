"""The gRPC server begins and ends with the gateway."""

import socket
from pathlib import Path

import grpc
import grpc.aio
import pytest

from gateway.picker import wire
from gateway.picker.rules import PickerRules
from gateway.picker.server import serving
from gateway.server.listener import ServerError
from tests.certificates import without_key_identifiers
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


@pytest.mark.parametrize("name", ["missing.crt", "server.crt"])
async def test_a_certificate_that_cannot_be_used_is_an_error(name: str, tmp_path: Path) -> None:
    files = without_key_identifiers(tmp_path)
    rules = PickerRules(listen="127.0.0.1:0", certificate=files.server.with_name(name), key=files.authority)

    with pytest.raises(
        ServerError, match=rf"Cannot use the certificate .*{name} with the key .*ca\.crt: .*certificate_file"
    ):
        async with serving(a_picker(Stage(a_model(At("10.0.0.1:1")))), rules, print, a_stop()):
            pass


async def test_clients_can_check_a_certificate_in_files(tmp_path: Path) -> None:
    files = without_key_identifiers(tmp_path)
    addresses: list[str] = []
    rules = PickerRules(listen="127.0.0.1:0", grace_s=0.0, certificate=files.server, key=files.key)
    trusted = grpc.ssl_channel_credentials(files.authority.read_bytes())
    async with (
        serving(a_picker(Stage(a_model(At("10.0.0.1:1")))), rules, addresses.append, a_stop()),
        grpc.aio.secure_channel(addresses[0], trusted) as channel,
    ):
        check = channel.unary_unary("/grpc.health.v1.Health/Check")

        assert b"\x08\x01" == await check(b"")


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

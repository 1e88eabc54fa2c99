"""The health service of gRPC, over a real connection."""

import signal
from contextlib import AbstractAsyncContextManager
from typing import Any

import grpc
import grpc.aio
import pytest

from gateway.picker.rules import PickerRules
from gateway.picker.server import serving
from gateway.server.stop import Stop
from tests.gateway.examples import a_model
from tests.gateway.picker.envoy import At, a_picker, a_stop
from tests.gateway.proxy.stage import Stage

SERVING, NOT_SERVING, UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"
PICKER = "envoy.service.ext_proc.v3.ExternalProcessor"


def a_server(addresses: list[str], stop: Stop | None = None) -> AbstractAsyncContextManager[None]:
    picker = a_picker(Stage(a_model(At("10.0.0.1:1"))))
    return serving(picker, PickerRules(listen="127.0.0.1:0"), addresses.append, stop or a_stop())


def said(name: str) -> bytes:
    return b"\x0a" + bytes([len(name)]) + name.encode() if name else b""


def health(channel: Any, method: str) -> Any:
    kind = channel.unary_unary if method == "Check" else channel.unary_stream
    return kind(f"/grpc.health.v1.Health/{method}")


async def test_the_picker_serves() -> None:
    """Kubernetes and Envoy ask for different names."""
    addresses: list[str] = []
    async with a_server(addresses), grpc.aio.insecure_channel(addresses[0]) as channel:
        for name in ("", PICKER, "readiness", "liveness"):
            assert SERVING == await health(channel, "Check")(said(name))
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await health(channel, "Check")(said("other"))

    assert grpc.StatusCode.NOT_FOUND == failure.value.code()


async def test_who_watches_learns_that_the_picker_stops() -> None:
    """The liveness stays, because the process still answers running requests."""
    addresses: list[str] = []
    server = a_server(addresses)
    await server.__aenter__()
    async with grpc.aio.insecure_channel(addresses[0]) as channel:
        watched = {name: health(channel, "Watch")(said(name)) for name in ("", "liveness", "other")}
        first = {name: await each.read() for name, each in watched.items()}
        await server.__aexit__(None, None, None)
        second = {name: await each.read() for name, each in watched.items()}

    assert {"": SERVING, "liveness": SERVING, "other": UNKNOWN} == first
    assert {"": NOT_SERVING, "liveness": SERVING, "other": UNKNOWN} == second


async def test_a_stop_is_reported_as_soon_as_it_is_requested() -> None:
    """Envoy then chooses other pickers, while this one still serves for the delay."""
    addresses: list[str] = []
    stop = a_stop()
    async with a_server(addresses, stop), grpc.aio.insecure_channel(addresses[0]) as channel:
        watched = health(channel, "Watch")(said("readiness"))
        first = await watched.read()
        stop.signalled(signal.SIGTERM)
        second = await watched.read()
        asked = {name: await health(channel, "Check")(said(name)) for name in ("readiness", "liveness")}

    assert (SERVING, NOT_SERVING) == (first, second)
    assert {"readiness": NOT_SERVING, "liveness": SERVING} == asked

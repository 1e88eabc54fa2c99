"""The gRPC server for Envoy runs beside the HTTP server."""

import grpc.aio

from gateway.app.application import create_app
from gateway.app.mapping.surroundings import picker_rules
from gateway.app.picker import picker_beside
from gateway.settings import build
from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.gateway.asgi import running
from tests.gateway.examples import CHAT
from tests.gateway.picker.envoy import Envoy, a_stop


async def test_envoy_gets_a_worker_of_the_settings() -> None:
    """The gateway itself answers the list of its models."""
    addresses: list[str] = []
    async with serving(SimulatorOptions(port=0, speed=0)) as url:
        model = {"name": "tiny", "workers": [{"url": url}]}
        data = {"models": [model], "picker": {"listen": "127.0.0.1:0"}, "logging": {"requests": False}}
        settings = build(data, {})
        async with (
            running(create_app(settings, beside=picker_beside(picker_rules(settings), addresses.append, a_stop()))),
            grpc.aio.insecure_channel(addresses[0]) as channel,
        ):
            asked = await Envoy(channel).ask(CHAT)
            models = await Envoy(channel).ask(path=b"/v1/models", method=b"GET")

    assert (url.removeprefix("http://"), CHAT) == (asked.destination, asked.body)
    assert (200, True) == (models.status, b'"id":"tiny"' in models.answer)

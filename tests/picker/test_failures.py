"""What callers get while pickers, workers or Envoy are unavailable."""

import asyncio
import os
import signal
import socket
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.picker.configuration import BodyMode, Pool
from tests.picker.rig import PATIENCE_S, Rig, before, picker, rig, simulated

MODES: tuple[BodyMode, ...] = ("FULL_DUPLEX_STREAMED", "BUFFERED")


@pytest.mark.parametrize("mode", MODES)
async def test_a_pool_that_fails_closed_answers_no_request_without_its_picker(mode: BodyMode, tmp_path: Path) -> None:
    """The counterpart of EppUnAvailableFailOpen, which is the default of an InferencePool (FailClose)."""
    async with rig(tmp_path, 2, body_mode=mode) as there:
        assert 200 == (await there.chat()).status_code
        await there.picker.kill()
        total = sum((await there.served()).values())
        answers = [await there.chat() for _ in range(3)]

        assert {500} == {answer.status_code for answer in answers}
        assert total == sum((await there.served()).values())


@pytest.mark.parametrize("mode", MODES)
async def test_a_pool_that_fails_open_answers_requests_without_its_picker(mode: BodyMode, tmp_path: Path) -> None:
    """EppUnAvailableFailOpen: Envoy then chooses endpoints itself, in turns, as soon as its health check knows that the
    picker is gone.
    """
    async with rig(tmp_path, 2, body_mode=mode, is_open=True) as there:
        assert 200 == (await there.chat()).status_code
        await there.picker.kill()
        await until_gone(there)
        earlier = await there.served()
        answers = [await there.chat() for _ in range(6)]
        later = await there.served()

        assert {200} == {answer.status_code for answer in answers}
        assert {3} == {later[worker] - earlier[worker] for worker in there.workers}


async def test_a_picker_that_comes_back_is_used_again(tmp_path: Path) -> None:
    listen = f"127.0.0.1:{port_for_long()}"
    async with (
        simulated(2) as workers,
        picker(tmp_path, workers, listen=listen) as one,
        before([Pool(listen, workers)], [one], workers) as there,
    ):
        await one.kill()
        assert 500 == (await there.chat()).status_code
        async with picker(tmp_path, workers, name="again", listen=listen), asyncio.timeout(PATIENCE_S):
            while (await there.chat()).status_code != 200:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("mode", MODES)
async def test_a_worker_that_refuses_connections_is_replaced_by_the_next_endpoint(
    mode: BodyMode, tmp_path: Path
) -> None:
    """Envoy tries the further endpoints that the picker names, and the picker books the worker that answers."""
    rarely = {"interval_s": 3600, "timeout_s": 20, "metrics_interval_s": 3600}
    async with AsyncExitStack() as exits, simulated(1) as lasting:
        ended = AsyncExitStack()
        await exits.enter_async_context(ended)
        ending = await ended.enter_async_context(simulated(1))
        both = [*ending, *lasting]
        one = await exits.enter_async_context(picker(tmp_path, both, conformance=True, health=rarely))
        there = await exits.enter_async_context(before([Pool(one.address, both, body_mode=mode)], [one], lasting))
        await ended.aclose()
        answers = [await there.chat(f"request {number}") for number in range(8)]

        assert {200} == {answer.status_code for answer in answers}
        assert {*lasting} == {answer.headers["x-conformance-test-served-endpoint"] for answer in answers}


async def until_gone(there: Rig) -> None:
    """Wait until Envoy knows no healthy picker."""
    async with asyncio.timeout(PATIENCE_S):
        while await there.envoy.counter("cluster.picker-of-pool.membership_healthy"):
            await asyncio.sleep(0.05)


def port_for_long() -> int:
    """Return a free port below those that the system gives to outgoing connections, so that it stays free."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


@pytest.mark.parametrize(
    ("mode", "limits"),
    [
        ("BUFFERED", {"message_timeout": "5s"}),
        ("FULL_DUPLEX_STREAMED", {"idle_timeout": "5s", "message_timeout": "5s"}),
    ],
)
async def test_a_picker_that_hangs_is_status_504(tmp_path: Path, mode: BodyMode, limits: dict[str, Any]) -> None:
    """Each mode has a time limit of Envoy that applies."""
    async with simulated(1) as workers, picker(tmp_path, workers) as one:
        pool = Pool(one.address, workers, body_mode=mode, **limits)
        async with before([pool], [one], workers) as there:
            one.process.send_signal(signal.SIGSTOP)
            try:
                answer = await there.chat()
            finally:
                one.process.send_signal(signal.SIGCONT)

    assert 504 == answer.status_code

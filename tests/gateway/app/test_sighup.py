"""SIGHUP as a request to read the configuration again."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable

import pytest
import uvloop

from gateway.app.sighup import on_sighup


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_each_sighup_is_handled(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """The call runs on the loop; afterwards the signal has its former handler."""
    threads: list[threading.Thread] = []

    async def raise_twice() -> None:
        with on_sighup(lambda: threads.append(threading.current_thread())):
            for count in (1, 2):
                os.kill(os.getpid(), signal.SIGHUP)
                async with asyncio.timeout(60):
                    while len(threads) < count:
                        await asyncio.sleep(0.001)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(raise_twice())

    assert [threading.main_thread()] * 2 == threads
    assert signal.SIG_DFL == signal.getsignal(signal.SIGHUP)


def test_another_thread_gets_no_signals(caplog: pytest.LogCaptureFixture) -> None:
    """The log says so."""
    caplog.set_level("INFO")
    entered = []

    async def inside() -> None:
        with on_sighup(lambda: None):
            entered.append(True)

    thread = threading.Thread(target=lambda: asyncio.run(inside()))
    thread.start()
    thread.join()

    assert [True] == entered
    assert ["SIGHUP has no effect: the configuration is reloaded when its file changes"] == caplog.messages

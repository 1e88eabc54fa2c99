"""SIGHUP as a request to read the configuration again."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable

import pytest
import uvloop

from gateway.hangup import told_of_hangups


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_each_hangup_is_told(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """On the loop, and whatever handled the signal before handles it again afterwards."""
    told: list[threading.Thread] = []

    async def hang_up_twice() -> None:
        with told_of_hangups(lambda: told.append(threading.current_thread())):
            for count in (1, 2):
                os.kill(os.getpid(), signal.SIGHUP)
                async with asyncio.timeout(30):
                    while len(told) < count:
                        await asyncio.sleep(0.001)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(hang_up_twice())

    assert [threading.main_thread()] * 2 == told
    assert signal.SIG_DFL == signal.getsignal(signal.SIGHUP)


def test_where_signals_do_not_come_nothing_breaks(caplog: pytest.LogCaptureFixture) -> None:
    """A loop in another thread cannot hear them."""
    caplog.set_level("INFO")
    entered = []

    async def inside() -> None:
        with told_of_hangups(lambda: None):
            entered.append(True)

    thread = threading.Thread(target=lambda: asyncio.run(inside()))
    thread.start()
    thread.join()

    assert [True] == entered
    assert ["SIGHUP is not heard here: the configuration is read again when its file changes"] == caplog.messages

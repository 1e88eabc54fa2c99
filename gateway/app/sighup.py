"""Reload of the configuration on the signal SIGHUP."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterator

_log = logging.getLogger(__name__)

_SIGHUP: signal.Signals | None = getattr(signal, "SIGHUP", None)
"""The signal SIGHUP, or None on platforms without it."""


@contextlib.contextmanager
def on_sighup(call: Callable[[], None]) -> Iterator[None]:
    """Run *call* on the event loop for each SIGHUP inside the block. Outside the block, SIGHUP ends the process.

    On platforms without this signal, and outside the main thread, *call* is never run.
    """
    loop = asyncio.get_running_loop()
    if _SIGHUP is None:
        yield
        return
    try:
        loop.add_signal_handler(_SIGHUP, call)
    except (NotImplementedError, RuntimeError, ValueError):
        _log.info("SIGHUP has no effect: the configuration is reloaded when its file changes")
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(_SIGHUP)

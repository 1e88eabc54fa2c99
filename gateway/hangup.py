"""SIGHUP, by which operators ask a server to read its configuration again."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterator

_log = logging.getLogger(__name__)

_SIGHUP: signal.Signals | None = getattr(signal, "SIGHUP", None)
"""None on platforms without it."""


@contextlib.contextmanager
def told_of_hangups(tell: Callable[[], None]) -> Iterator[None]:
    """Inside, *tell* is called on the running loop for each SIGHUP; outside it ends the process, as ever.

    Where there is no such signal, or the loop is not in the main thread, nobody is told.
    """
    loop = asyncio.get_running_loop()
    if _SIGHUP is None:
        yield
        return
    try:
        loop.add_signal_handler(_SIGHUP, tell)
    except (NotImplementedError, RuntimeError, ValueError):
        _log.info("SIGHUP is not heard here: the configuration is read again when its file changes")
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(_SIGHUP)

"""The signals that ask a server to stop."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def handled_by(handle: Callable[[int, Any], object]) -> Iterator[None]:
    """Inside, *handle* is told of a stop signal; afterwards whoever was told before. For the main thread only."""
    previous = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

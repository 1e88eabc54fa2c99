"""Repeated measurement of a short operation.

Standard library only, because the environments of peers import it as well.
"""

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def timed_us(do: Callable[[T], object], arguments: Iterable[T]) -> list[float]:
    """Return the time of *do* for each of *arguments*, in microseconds."""
    times_us = []
    for argument in arguments:
        began = time.perf_counter()
        do(argument)
        times_us.append((time.perf_counter() - began) * 1e6)
    return times_us

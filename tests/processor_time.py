"""Measurements of processor time that a busy machine and the cycle collector do not disturb."""

import gc
from collections.abc import Awaitable, Callable


async def least_of(tries: int, measure: Callable[[], Awaitable[float]], enough: float) -> float:
    """Return the least result of *measure* in at most *tries* calls; one that is at most *enough* ends them.

    Another program on the same core, or one pass of the cycle collector over the heap of all tests so far, adds to one
    call. What the code itself costs is in every call.
    """
    gc.collect()
    gc.disable()
    try:
        least = await measure()
        for _ in range(tries - 1):
            if least <= enough:
                break
            least = min(least, await measure())
    finally:
        gc.enable()
    return least

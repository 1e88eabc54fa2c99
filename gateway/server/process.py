"""What is set once for the whole process, so that nothing holds the event loop for long.

Memory that was freed is kept: a body of 220 kB is copied some times on its way, and a copy into fresh pages takes twice
as long, because the kernel clears them one by one. And who waits for Python's lock gets it soon: with Python's own 5 ms
the loop would wait for so long whenever a thread renders a chat template.
"""

import contextlib
import ctypes
import sys
from collections.abc import Iterator

from gateway.server.collector import set_up_for_serving

SWITCH_S = 0.0005
"""After this time a thread that runs Python gives way to others."""
KEPT_BYTES = 64 * 2**20
"""At the end of the heap, that are not given back to the system."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
_LARGEST_FROM_HEAP = 2**20
"""A larger block is a mapping of its own. In the heap, bodies of megabytes would move its end by more than
`KEPT_BYTES`, and giving back that much at once holds the event loop for 7 ms."""


@contextlib.contextmanager
def ready_to_serve() -> Iterator[None]:
    """Within the block the process is set up for serving. What malloc was told stays: it cannot be asked."""
    keep_freed_memory()
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        with set_up_for_serving():
            yield
    finally:
        sys.setswitchinterval(before)


def keep_freed_memory() -> bool:
    """Tell malloc; whether it understood: other C libraries than glibc have no such call."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST_FROM_HEAP) and mallopt(_TRIM_THRESHOLD, KEPT_BYTES))

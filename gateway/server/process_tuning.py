"""Tune the memory allocator, thread switching and garbage collector of this process, so that they do not block the
event loop.

The allocator keeps freed memory. A request body of 220 kB is copied several times, and a copy into new memory pages
takes twice as long, because the kernel clears each page. Threads must release Python's global lock (the GIL) sooner.
With the default of 5 ms, the event loop would wait that long whenever a thread renders a chat template.
"""

import contextlib
import ctypes
import gc
import sys
from collections.abc import Iterator

THRESHOLDS = (1_000, 2, 24_000)
"""Thresholds of the three garbage collector generations, for `gc.set_threshold`.

With Python's default (700, 10, 10), the collector scanned the whole prefix index about once a second. At 5,000 requests
per second that reduced throughput by a tenth, and raised the 99th percentile of latency from 12 ms to 60 ms. With the
thresholds (1000, 2, 24000), a full collection runs once in 72 million new objects, and the second generation is
collected after 3,000 objects have survived. Larger thresholds do not save CPU time in total, and each collection takes
longer: 1.4 ms for 6,000 objects, 3.4 ms for 16,000 and 53 ms for 400,000.

The prefix index is freed by reference counting. Reference cycles come from failed requests, and are still young when
the second generation is collected.
"""
SWITCH_S = 0.0005
"""Seconds after which a running thread must release Python's global lock (the GIL) if other threads wait."""
KEPT_BYTES = 64 * 2**20
"""Number of bytes of free memory to keep at the end of the heap instead of returning them to the operating system."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
_LARGEST_FROM_HEAP = 2**20
"""Size in bytes above which malloc maps a block separately. In the heap, large bodies would move its end by more than
`KEPT_BYTES`, and returning that much memory blocks the event loop for 7 ms.
"""


@contextlib.contextmanager
def ready_to_serve() -> Iterator[None]:
    """Tune the process while the context is active. The settings of malloc remain, because their former values cannot
    be read.
    """
    keep_freed_memory()
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        with tune_gc():
            yield
    finally:
        sys.setswitchinterval(before)


def keep_freed_memory() -> bool:
    """Configure malloc. Return whether this was possible, which requires the C library glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST_FROM_HEAP) and mallopt(_TRIM_THRESHOLD, KEPT_BYTES))


@contextlib.contextmanager
def tune_gc() -> Iterator[None]:
    """Exclude existing objects from garbage collection, and collect new objects rarely, while the context is active."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()

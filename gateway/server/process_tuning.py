"""Settings of the process that keep the event loop free: memory allocator, threads, garbage collector.

Freed memory is kept: a body of 220 kB is copied several times on its way, and a copy into fresh pages takes twice as
long, because the kernel clears each page. Threads release Python's lock sooner: with the default of 5 ms, the event
loop would wait that long whenever a thread renders a chat template.
"""

import contextlib
import ctypes
import gc
import sys
from collections.abc import Iterator

THRESHOLDS = (2_000, 2, 12_000)
"""New objects before the first generation is collected, and collections of it before the next generation is.

With Python's default (700, 10, 10) the collector walked the whole prefix index about once a second: at 5,000 requests
per second that cost a tenth of the throughput, and the 99th percentile was 60 ms instead of 12. With these values
everything is walked once in 72 million objects, and the second generation when 6,000 objects have survived. Larger
values save nothing in total and take longer at once: 3.4 ms for 16,000 objects, 53 ms for 400,000.

The index is freed by reference counts. Cycles come from failed requests, and are young when the second generation is
collected.
"""
SWITCH_S = 0.0005
"""Time after which a thread has to release Python's lock if others wait for it."""
KEPT_BYTES = 64 * 2**20
"""Free bytes at the end of the heap that are not returned to the system."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
_LARGEST_FROM_HEAP = 2**20
"""Larger blocks are mapped separately. In the heap, bodies of megabytes would move its end by more than `KEPT_BYTES`,
and returning that much at once blocks the event loop for 7 ms."""


@contextlib.contextmanager
def ready_to_serve() -> Iterator[None]:
    """Tune the process inside the block. The settings of malloc stay, because they cannot be read."""
    keep_freed_memory()
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        with tune_gc():
            yield
    finally:
        sys.setswitchinterval(before)


def keep_freed_memory() -> bool:
    """Configure malloc; return False with other C libraries than glibc, which have no such call."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST_FROM_HEAP) and mallopt(_TRIM_THRESHOLD, KEPT_BYTES))


@contextlib.contextmanager
def tune_gc() -> Iterator[None]:
    """Inside the block, never collect objects that exist already, and seldom collect new ones."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()

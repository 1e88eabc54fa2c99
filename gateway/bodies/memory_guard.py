"""Refuses new requests while the process takes too much memory, so that those that run can end."""

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from gateway.errors import MemoryShort

EVERY_S: Final = 0.25
"""Between two looks at the memory: 20 us each."""
TRIM_EVERY: Final = 20
"""Looks above the limit after which the allocator is asked to return what it does not use."""
CGROUP_SHARE: Final = 0.9
"""Of a container's memory, where no limit is set: the kernel kills at 1."""

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_UNLIMITED_BYTES = 2**60
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MemoryGuard:
    """Knows whether the process, with the processes that it started, takes more than *max_bytes*."""

    def __init__(
        self,
        max_bytes: int,
        *,
        rss_bytes: Callable[[], int],
        trim: Callable[[], None] = lambda: None,
    ) -> None:
        self._max_bytes: Final = max_bytes
        self._rss_bytes = rss_bytes
        self._trim = trim
        self.looks_above = 0
        """How often in a row the memory was above the limit; 0: requests are let in."""

    def check(self) -> None:
        """Raises MemoryShort while the memory is above the limit."""
        if self.looks_above:
            raise MemoryShort(
                "The gateway has no memory for more requests now (server.max_memory_bytes). Retry later",
                retry_after_s=2,
            )

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            if self.look():
                await asyncio.to_thread(self._trim)

    def look(self) -> bool:
        """Read the memory; True if the allocator should return some."""
        if self._rss_bytes() <= self._max_bytes:
            self.looks_above = 0
            return False
        self.looks_above += 1
        return self.looks_above % TRIM_EVERY == 1


def memory_limit(paths: Iterable[str] = _CGROUP_LIMITS) -> int | None:
    """The limit above which requests are refused where none is set: a share of the container's; None if it has none."""
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            limit = int(Path(path).read_text(encoding="ascii"))  # "max" where there is none
            if limit < _UNLIMITED_BYTES:
                return int(limit * CGROUP_SHARE)
    return None


def rss_bytes_of(pids: Iterable[int | str]) -> int:
    """Resident memory of the processes *pids* together; those that have gone count nothing, as all do without /proc."""
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            pages += int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * _PAGE_BYTES


def trimmed() -> None:
    """Have the allocator return memory that it does not use, where it knows how (glibc)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)

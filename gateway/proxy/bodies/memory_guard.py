"""Refuses new requests while the process uses too much memory, so that running requests can end."""

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from gateway.protocol.errors import MemoryShort

EVERY_S: Final = 0.25
"""Interval between two readings of the memory, which take 20 us each."""
TRIM_EVERY: Final = 20
"""Readings above the limit after which the allocator is asked to return unused memory."""
CGROUP_SHARE: Final = 0.9
"""Default limit as a share of the container's memory; at 1 the kernel kills the process."""

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_UNLIMITED_BYTES = 2**60
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MemoryGuard:
    """Knows whether the process and its child processes use more than *max_bytes*."""

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
        """Number of consecutive readings above the limit; 0: requests are admitted."""

    def check(self) -> None:
        """Raise MemoryShort while the memory is above the limit."""
        if self.looks_above:
            raise MemoryShort(
                "The gateway uses more memory than server.max_memory_bytes. Retry in 2 s.",
                retry_after_s=2,
            )

    async def run(self) -> None:
        """Read the memory at intervals until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            if self.look():
                await asyncio.to_thread(self._trim)

    def look(self) -> bool:
        """Read the memory; return whether the allocator should return some."""
        if self._rss_bytes() <= self._max_bytes:
            self.looks_above = 0
            return False
        self.looks_above += 1
        return self.looks_above % TRIM_EVERY == 1


def memory_limit(paths: Iterable[str] = _CGROUP_LIMITS) -> int | None:
    """Return the default limit, a share of the container's memory; None if the container has no limit."""
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            limit = int(Path(path).read_text(encoding="ascii"))  # "max" in a container without a limit
            if limit < _UNLIMITED_BYTES:
                return int(limit * CGROUP_SHARE)
    return None


def rss_bytes_of(pids: Iterable[int | str]) -> int:
    """Return the resident memory of the processes *pids* together; 0 for processes that ended, or without /proc."""
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            pages += int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * _PAGE_BYTES


def trimmed() -> None:
    """Let the allocator return unused memory, if it can (glibc)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)

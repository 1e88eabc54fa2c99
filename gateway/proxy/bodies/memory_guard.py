"""Reject new requests while the process uses too much memory, so that running requests can complete."""

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from gateway.protocol.errors import MemoryShort

EVERY_S: Final = 0.25
"""Seconds between two measurements of the process's memory. A measurement takes 20 us."""
TRIM_EVERY: Final = 20
"""Number of measurements above the memory limit between two requests to the allocator to return unused memory."""
CGROUP_SHARE: Final = 0.9
"""Default memory limit as a fraction of the container's limit, above which the kernel would kill the process."""

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_UNLIMITED_BYTES = 2**60
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MemoryGuard:
    """Check whether the process and its child processes use more than *max_bytes* of memory."""

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
        """Number of consecutive measurements above the memory limit. Requests are admitted while it is 0."""

    def check(self) -> None:
        """Raise MemoryShort while the process uses more memory than allowed."""
        if self.looks_above:
            raise MemoryShort(
                "The gateway uses more memory than server.max_memory_bytes. Retry in 2 s.",
                retry_after_s=2,
            )

    async def run(self) -> None:
        """Measure the process's memory at regular intervals until canceled."""
        while True:
            await asyncio.sleep(EVERY_S)
            if self.look():
                await asyncio.to_thread(self._trim)

    def look(self) -> bool:
        """Measure the process's memory. Return whether the allocator should now return unused memory to the operating
        system.
        """
        if self._rss_bytes() <= self._max_bytes:
            self.looks_above = 0
            return False
        self.looks_above += 1
        return self.looks_above % TRIM_EVERY == 1


def memory_limit(paths: Iterable[str] = _CGROUP_LIMITS) -> int | None:
    """Return the default memory limit in bytes, a fraction of the container's limit, or None if the container has no
    limit.
    """
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            limit = int(Path(path).read_text(encoding="ascii"))  # "max" in a container without a limit
            if limit < _UNLIMITED_BYTES:
                return int(limit * CGROUP_SHARE)
    return None


def rss_bytes_of(pids: Iterable[int | str]) -> int:
    """Return the total resident memory of the processes *pids* in bytes. A process that has ended counts as 0, also if
    /proc is missing.
    """
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            pages += int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * _PAGE_BYTES


def trimmed() -> None:
    """Ask the memory allocator to return unused memory to the operating system. Only glibc supports this."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)

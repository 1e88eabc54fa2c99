"""Limit on the number of open files of this process. Each connection needs one file descriptor.

Without a free descriptor, workers look unavailable and new clients hang. Therefore the open file limit is raised to its
maximum, and the number of accepted clients is bounded by this limit. Clients above the limit get status 503.
"""

import fcntl
import os
import resource
from contextlib import suppress
from pathlib import Path

PER_CLIENT = 2
"""Number of file descriptors for each client: one for its connection and one for a connection to a worker."""
SPARE = 512
"""Number of file descriptors reserved for listeners, stores, health checks and KV event subscriptions. At most a
quarter of the open file limit is reserved.
"""

MAX_TABLE_SIZE = 65_536
"""Largest number of preallocated file descriptors, which occupy 512 KiB of kernel memory."""


def raise_limit() -> int | None:
    """Raise the open file limit of this process to its maximum. Return the new limit, or None if there is no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return None if hard == resource.RLIM_INFINITY else hard


def clients_within(limit: int | None, wanted: int) -> int:
    """Return how many of *wanted* clients can connect if the process is allowed to open *limit* files. The result is at
    least 1.
    """
    if limit is None:
        return wanted
    return max(1, min(wanted, (limit - min(SPARE, limit // 4)) // PER_CLIENT))


def table_size(clients: int, limit: int | None) -> int:
    """Return the number of file descriptors to preallocate for *clients* clients, but at most *limit*."""
    wanted = min(PER_CLIENT * clients + SPARE, MAX_TABLE_SIZE)
    return wanted if limit is None else min(wanted, limit)


def preallocate(descriptors: int) -> None:
    """Enlarge the kernel's table of this process to *descriptors* file descriptors, if the open file limit allows it.
    Each file descriptor takes 8 bytes.

    Linux doubles a full table. If the process has threads, the kernel then waits until every processor has switched
    tasks (``expand_fdtable``: ``synchronize_rcu``). Without preallocation, each enlargement blocked the event loop for
    7 to 21 ms.
    """
    with suppress(OSError), Path(os.devnull).open("rb") as file:
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, descriptors - 1))

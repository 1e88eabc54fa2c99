"""The limit of open files of this process; every connection needs one.

Without a free descriptor, a worker looks unavailable and a new client hangs. So the limit is raised to its maximum, and
only as many clients are accepted as it allows; others get a 503.
"""

import fcntl
import os
import resource
from contextlib import suppress
from pathlib import Path

PER_CLIENT = 2
"""One connection to the client and one to the worker."""
SPARE = 512
"""Descriptors for listeners, stores, health checks and KV event subscriptions; at most a quarter of the limit."""

MAX_TABLE_SIZE = 65_536
"""Descriptors preallocated in the kernel's table: half a MiB of its memory."""


def raise_limit() -> int | None:
    """Raise the limit of this process to its maximum and return it; None: there is no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return None if hard == resource.RLIM_INFINITY else hard


def clients_within(limit: int | None, wanted: int) -> int:
    """Return how many of *wanted* clients a *limit* of open files allows, at least one."""
    if limit is None:
        return wanted
    return max(1, min(wanted, (limit - min(SPARE, limit // 4)) // PER_CLIENT))


def table_size(clients: int, limit: int | None) -> int:
    """Return how many descriptors to preallocate for *clients*, within *limit*."""
    wanted = min(PER_CLIENT * clients + SPARE, MAX_TABLE_SIZE)
    return wanted if limit is None else min(wanted, limit)


def preallocate(descriptors: int) -> None:
    """Grow the kernel's table to *descriptors*, if the limit allows it. Costs 8 bytes for each.

    Linux doubles a full table, and in a process with threads it waits until every processor has switched tasks
    (``expand_fdtable``: ``synchronize_rcu``). That blocked the event loop for 7 to 21 ms at 256 descriptors, 512, ...
    """
    with suppress(OSError), Path(os.devnull).open("rb") as file:
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, descriptors - 1))

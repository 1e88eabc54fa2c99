"""The files that this process may have open: every connection is one.

A connection that cannot be opened for want of a descriptor looks like a worker that is down, and a client that cannot
be accepted hangs. So the limit is raised as far as it goes, and no more clients are let in than it suffices for; the
others are told so (503).
"""

import fcntl
import os
import resource
from contextlib import suppress
from pathlib import Path

PER_CLIENT = 2
"""The client's own connection, and that to the worker which answers it."""
SPARE = 512
"""For all else: listeners, stores, health checks, subscriptions to KV events. A quarter where there are few."""

MOST_ROOM = 65_536
"""Descriptors for which there is room from the start: half a MiB of the kernel's memory."""


def raise_limit() -> int | None:
    """Raise the limit of this process to the most that it may be, and return that; None: there is no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return None if hard == resource.RLIM_INFINITY else hard


def clients_within(limit: int | None, wanted: int) -> int:
    """How many of *wanted* clients at once *limit* files suffice for, at least one."""
    if limit is None:
        return wanted
    return max(1, min(wanted, (limit - min(SPARE, limit // 4)) // PER_CLIENT))


def room_for(clients: int, limit: int | None) -> int:
    """For how many descriptors there should be room from the start: for *clients* and all else, within *limit*."""
    wanted = min(PER_CLIENT * clients + SPARE, MOST_ROOM)
    return wanted if limit is None else min(wanted, limit)


def make_room(descriptors: int) -> None:
    """Have the kernel's table hold so many *descriptors*, if they are within the limit.

    Linux doubles a table that is full, and where the process has threads it waits then until every processor has done
    something else (``expand_fdtable``: ``synchronize_rcu``). That held the event loop for 7 to 21 ms at 256
    descriptors, 512, and so on. Costs 8 bytes for each.
    """
    with suppress(OSError), Path(os.devnull).open("rb") as file:
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, descriptors - 1))

"""The files that this process may have open: every connection is one.

A connection that cannot be opened for want of a descriptor looks like a worker that is down, and a client that cannot
be accepted hangs. So the limit is raised as far as it goes, and no more clients are let in than it suffices for; the
others are told so (503).
"""

import resource

PER_CLIENT = 2
"""The client's own connection, and that to the worker which answers it."""
SPARE = 512
"""For all else: listeners, stores, health checks, subscriptions to KV events. A quarter where there are few."""


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

"""Waiting request with its cost on each worker."""

import numpy as np
import numpy.typing as npt

from routing.booking import Booking
from routing.candidate import Candidate
from routing.explanation import SPARE_SHARE
from routing.request import NORMAL, Request

Seconds = npt.NDArray[np.float64]


class Waiting:
    """Waiting request in the queue. Its arrays are in seconds and have one element per worker, in fleet order."""

    __slots__ = (
        *(
            "awaits",
            "awaits_until",
            "begins_session",
            "cost_s",
            "displaces_s",
            "due_in_s",
            "evicts_s",
            "gives_up_at",
            "level",
            "min_s",
            "order",
        ),
        *("found", "prefill_s", "request", "reserves", "seen_at", "since", "spill_in_s", "team", "weight"),
    )

    def __init__(self, request: Request, since: float, *, begins_session: bool, shares: bool = True) -> None:
        """Create the queue entry. Ignore the request's team, weight, priority and deadline if *shares* is false."""
        self.request = request
        self.since = since
        self.begins_session = begins_session
        self.team = request.team if shares else ""
        self.weight = request.weight if shares else 1.0
        self.level = request.priority if shares else NORMAL
        """Priority class in which the request is served. The class rises by one if the request's team is starved."""
        deadline_s = float("inf") if request.deadline_s is None or not shares else request.deadline_s
        wanted_in_s = float("inf") if request.wanted_in_s is None else request.wanted_in_s
        self.gives_up_at = since + deadline_s
        """Time when the caller stops waiting for an answer."""
        self.due_in_s = min(wanted_in_s, deadline_s * (1.0 - SPARE_SHARE))
        """Seconds after the arrival time *since* at which the first token is due."""
        goes_elsewhere = request.spill_in_s is not None and request.pinned is None
        self.spill_in_s = request.spill_in_s if goes_elsewhere else None
        self.seen_at = float("-inf")
        self.awaits: Booking | None = None
        """Request that computes a prefix for which this request waits, or None. See `SharedPrefixes`."""
        self.awaits_until = float("inf")
        """Time until which the request can wait for prefixes, or infinity before it waits for the first time."""
        self.found: list[Candidate] = []
        """All candidate workers that the last cache lookup found."""
        self.order: list[Candidate] = []
        """Candidate workers that the request can use."""
        self.reserves: list[Candidate] = []
        """Reserve workers, which are tried after all other candidates have failed."""
        self.prefill_s: Seconds = np.empty(0)
        self.evicts_s: Seconds = np.empty(0)
        """Expected seconds, per worker, to recompute the cached blocks that the request evicts."""
        self.displaces_s: Seconds = np.empty(0)
        """Expected seconds per worker to recompute what other sessions lose if the request's session begins there."""
        self.min_s = 0.0
        """Prefill time in seconds on the worker with the longest cache hit."""
        self.cost_s = 0.0
        """Seconds of worker time that the request uses: its prefill `min_s`, and its share of each later decode step.
        """

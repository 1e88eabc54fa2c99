"""A request that is held, with what it costs and where."""

import numpy as np
import numpy.typing as npt

from routing.candidate import Candidate
from routing.request import NORMAL, Request

Seconds = npt.NDArray[np.float64]

SPARE_SHARE = 0.2
"""Of the time that its caller is prepared to wait, what is left when a request becomes urgent."""


def longest_wait_s(within_s: float, prefill_s: float) -> float:
    """For how long what wants its first token *within_s* may wait, if its own prefill takes *prefill_s*.

    How long a prefill takes is only believed. So a part of the time is always there to wait in, and nothing is turned
    away from a worker that idles, which alone can show that the belief is wrong.
    """
    return max(within_s - prefill_s, within_s * SPARE_SHARE)


class Waiting:
    """What is known of a request in the queue. Seconds by the place of a worker in the fleet."""

    __slots__ = (
        *("begins_session", "cost_s", "due_in_s", "evicts_s", "gives_up_at", "least_s", "level", "order", "prefill_s"),
        *("found", "request", "reserves", "seen_at", "since", "spill_in_s", "team", "weight"),
    )

    def __init__(self, request: Request, since: float, *, begins_session: bool, shares: bool = True) -> None:
        """Waits since *since*. Unless it *shares* the queue with other teams, nobody's share counts."""
        self.request = request
        self.since = since
        self.begins_session = begins_session
        self.team = request.team if shares else ""
        self.weight = request.weight if shares else 1.0
        self.level = request.priority if shares else NORMAL
        """The class that it is served in; one higher than its own once it has starved."""
        deadline_s = float("inf") if request.deadline_s is None or not shares else request.deadline_s
        wanted_in_s = float("inf") if request.wanted_in_s is None else request.wanted_in_s
        self.gives_up_at = since + deadline_s
        """When its caller goes away."""
        self.due_in_s = min(wanted_in_s, deadline_s * (1.0 - SPARE_SHARE))
        """From *since*: the first token should be there by then."""
        goes_elsewhere = request.spill_in_s is not None and request.pinned is None
        self.spill_in_s = request.spill_in_s if goes_elsewhere else None
        self.seen_at = float("-inf")
        self.found: list[Candidate] = []
        """All candidates when it was looked up."""
        self.order: list[Candidate] = []
        """Those of them that it may choose."""
        self.reserves: list[Candidate] = []
        """The others, to be tried when those have failed."""
        self.prefill_s: Seconds = np.empty(0)
        self.evicts_s: Seconds = np.empty(0)
        """To compute again what has to leave the cache for it."""
        self.least_s = 0.0
        self.cost_s = 0.0
        """What it takes from the others: prefill where most of it is cached, and its share of every step after that."""

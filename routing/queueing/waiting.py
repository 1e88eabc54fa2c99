"""A request that is held, with its cost on each worker."""

import numpy as np
import numpy.typing as npt

from routing.candidate import Candidate
from routing.explanation import SPARE_SHARE
from routing.request import NORMAL, Request

Seconds = npt.NDArray[np.float64]


class Waiting:
    """A request in the queue. Arrays are in seconds, by the worker's place in the fleet."""

    __slots__ = (
        *("begins_session", "cost_s", "due_in_s", "evicts_s", "gives_up_at", "level", "min_s", "order", "prefill_s"),
        *("found", "request", "reserves", "seen_at", "since", "spill_in_s", "team", "weight"),
    )

    def __init__(self, request: Request, since: float, *, begins_session: bool, shares: bool = True) -> None:
        """*shares*: teams share the queue; otherwise team, weight, priority and deadline of the request are ignored."""
        self.request = request
        self.since = since
        self.begins_session = begins_session
        self.team = request.team if shares else ""
        self.weight = request.weight if shares else 1.0
        self.level = request.priority if shares else NORMAL
        """Priority class in which it is served; one above its own once its team has starved."""
        deadline_s = float("inf") if request.deadline_s is None or not shares else request.deadline_s
        wanted_in_s = float("inf") if request.wanted_in_s is None else request.wanted_in_s
        self.gives_up_at = since + deadline_s
        """Time at which its caller goes away."""
        self.due_in_s = min(wanted_in_s, deadline_s * (1.0 - SPARE_SHARE))
        """Seconds after *since* at which the first token should be there."""
        goes_elsewhere = request.spill_in_s is not None and request.pinned is None
        self.spill_in_s = request.spill_in_s if goes_elsewhere else None
        self.seen_at = float("-inf")
        self.found: list[Candidate] = []
        """All candidates at the last lookup."""
        self.order: list[Candidate] = []
        """The candidates that it may choose."""
        self.reserves: list[Candidate] = []
        """The other candidates, to be tried when those have failed."""
        self.prefill_s: Seconds = np.empty(0)
        self.evicts_s: Seconds = np.empty(0)
        """Expected time to compute again what has to leave the cache for it."""
        self.min_s = 0.0
        """Prefill on the worker that holds most of the prompt."""
        self.cost_s = 0.0
        """Time that it takes from others: `min_s`, and its share of every later step."""

"""The workers at one moment as arrays, for sums over all of them at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from routing.queueing.release_policy import ReleasePolicy
from routing.queueing.waiting import Seconds
from routing.strategies.prefix_aware import DECODE_PRICE, externality
from routing.worker import Worker

ROUNDING_S = 1e-9
"""Tolerance: when a backlog should have fallen to the depth, it may be slightly above it."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """Arrays by place, in the order of the fleet. Work that is expected to be sent may be added to `backlog_s`."""

    backlog_s: Seconds
    """Seconds of prefill; infinite where nothing can be sent."""
    slower_s: Seconds
    """Cost of each output token of one more request to the other requests there."""
    zone_penalty_s: Seconds
    """Extra cost of a request there, compared with a near worker."""
    room: Seconds
    """Requests that can still be sent there; infinite where that is unknown."""
    is_open: npt.NDArray[np.bool_]
    """Whether it has room even if its predicted backlog is long."""
    depth_s: float
    price: float
    """Price, in seconds of waiting, of a second of prefill."""

    def is_free(self) -> npt.NDArray[np.bool_]:
        """Return whether each worker would begin a request without delay."""
        return ((self.backlog_s <= self.depth_s) | self.is_open) & (self.room >= 1.0)

    @classmethod
    def at(cls, workers: Sequence[Worker], policy: ReleasePolicy, now: float, *, counts_room: bool) -> Self:
        """Return the view of *workers* at *now*. Without *counts_room*, only backlogs decide which of them are free."""
        depth_s = policy.depth_s + ROUNDING_S
        backlog_s, slower_s = np.full(len(workers), np.inf), np.zeros(len(workers))
        room, is_open = np.full(len(workers), np.inf), np.zeros(len(workers), np.bool_)
        zone_penalty_s = np.array([worker.zone_penalty_s for worker in workers])
        busy_shares = []
        for place, worker in enumerate(workers):
            if worker.is_ready:
                load = worker.load(now)
                backlog_s[place] = load.backlog_s
                busy_shares.append(load.busy_share)
                slower_s[place] = load.decode_s_per_token * load.in_flight * DECODE_PRICE
                if counts_room:
                    room[place] = worker.room(load.backlog_s, depth_s, now)
                    is_open[place] = load.backlog_s > depth_s and room[place] >= 1.0
        price = min(policy.price, 1.0 + externality(busy_shares))
        return cls(backlog_s, slower_s, zone_penalty_s, room, is_open, depth_s, price)

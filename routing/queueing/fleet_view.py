"""Snapshot of all workers as arrays, for vectorized computations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from routing.queueing.release_policy import ReleasePolicy
from routing.queueing.waiting import Seconds
from routing.strategies.prefix_aware import DECODE_PRICE, price_of
from routing.worker import Worker, usual_busy_share

ROUNDING_S = 1e-9
"""Tolerance in seconds for rounding errors when a backlog is compared with the depth."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """Arrays with one element per worker, in fleet order. The caller is allowed to add expected work to `backlog_s`."""

    backlog_s: Seconds
    """Seconds of prefill backlog per worker. The backlog is infinite for workers that cannot get requests."""
    slower_s: Seconds
    """Cost in seconds that each output token of one more request adds to the worker's other requests."""
    zone_penalty_s: Seconds
    """Extra cost in seconds of a request on each worker, compared with a worker in the gateway's zone."""
    room: Seconds
    """Number of requests that can still be sent to each worker. The number is infinite if unknown."""
    is_open: npt.NDArray[np.bool_]
    """Whether each worker can take a request in spite of a long predicted backlog."""
    depth_s: float
    price: Seconds
    """Cost of a second of prefill on each worker, in equivalent seconds of waiting."""

    def is_free(self) -> npt.NDArray[np.bool_]:
        """Return a Boolean array that is true for each worker that would begin a request without delay."""
        return ((self.backlog_s <= self.depth_s) | self.is_open) & (self.room >= 1.0)

    @classmethod
    def at(cls, workers: Sequence[Worker], policy: ReleasePolicy, now: float, *, counts_room: bool) -> Self:
        """Return a snapshot of *workers* at *now*. Free capacity is counted only if *counts_room* is true."""
        depth_s = policy.depth_s + ROUNDING_S
        backlog_s, slower_s = np.full(len(workers), np.inf), np.zeros(len(workers))
        room, is_open = np.full(len(workers), np.inf), np.zeros(len(workers), np.bool_)
        zone_penalty_s = np.array([worker.zone_penalty_s for worker in workers])
        price = np.ones(len(workers))
        usual_share = usual_busy_share([worker for worker in workers if worker.is_ready], now)
        for place, worker in enumerate(workers):
            if worker.is_ready:
                load = worker.load(now, usual_share)
                backlog_s[place] = load.backlog_s
                price[place] = min(policy.price, price_of(load.busy_share))
                slower_s[place] = load.decode_s_per_token * load.in_flight * DECODE_PRICE
                if counts_room:
                    room[place] = worker.room(load.backlog_s, depth_s, now)
                    is_open[place] = load.backlog_s > depth_s and room[place] >= 1.0
        return cls(backlog_s, slower_s, zone_penalty_s, room, is_open, depth_s, price)

"""Workers as those who wait for one see them at one moment: arrays, for sums over all of them at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from routing.patience import Patience
from routing.strategies.prefix_aware import DECODE_PRICE, externality
from routing.waiting import Seconds
from routing.worker import Worker

ROUNDING_S = 1e-9
"""When a backlog was to have reached the depth it may be a hair above."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """By place, in the order of the fleet. What is believed to be sent meanwhile may be added to it."""

    backlog_s: Seconds
    """Without end where nothing can be sent."""
    slower_s: Seconds
    """What each output token of one more request costs the others."""
    way_s: Seconds
    """What each costs more than one that is near."""
    room: Seconds
    """How many more can be sent there, as far as that is known."""
    is_open: npt.NDArray[np.bool_]
    """Has room whatever its backlog is believed to be."""
    depth_s: float
    price: float
    """Seconds of waiting that a second of prefill is worth."""

    def takes(self) -> npt.NDArray[np.bool_]:
        """Whether what is sent there is computed as soon as that is possible at all."""
        return ((self.backlog_s <= self.depth_s) | self.is_open) & (self.room >= 1.0)

    @classmethod
    def of(cls, workers: Sequence[Worker], patience: Patience, now: float, *, counts_room: bool) -> Self:
        """*workers* at *now*; without *counts_room* only their backlogs say who takes more."""
        depth_s = patience.depth_s + ROUNDING_S
        backlog_s, slower_s = np.full(len(workers), np.inf), np.zeros(len(workers))
        room, is_open = np.full(len(workers), np.inf), np.zeros(len(workers), np.bool_)
        way_s = np.array([worker.way_s for worker in workers])
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
        price = min(patience.price, 1.0 + externality(busy_shares))
        return cls(backlog_s, slower_s, way_s, room, is_open, depth_s, price)

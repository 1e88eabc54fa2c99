"""Table of routing strategies by name. To add a strategy, add a module to this package and a line to the table."""

import random
from collections.abc import Mapping
from typing import Protocol

from routing.rendezvous import Rendezvous
from routing.strategies.kv_aware import KvAware
from routing.strategies.least_loaded import LeastLoaded
from routing.strategies.prefix_aware import PrefixAware
from routing.strategies.round_robin import RoundRobin
from routing.strategies.session import Session
from routing.strategy import Strategy


class Make(Protocol):
    """Constructor of a routing strategy. Ties are broken by *ties*, or at random if *ties* is None."""

    is_late_bound: bool
    ranks_by_cost: bool
    needs_events: bool

    def __call__(self, rng: random.Random, ties: Rendezvous | None = None, /) -> Strategy: ...


STRATEGIES: Mapping[str, Make] = {
    "round_robin": RoundRobin,
    "least_loaded": LeastLoaded,
    "session": Session,
    "prefix_aware": PrefixAware,
    "kv_aware": KvAware,
}
NAMES = tuple(STRATEGIES)
WITHOUT_EVENTS = "prefix_aware"
"""Name of the strategy that is used instead if a strategy needs cache events but no engine reports them."""

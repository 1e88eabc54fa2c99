"""The strategies by name. A new one is a module beside these and a line in the table."""

import random
from collections.abc import Callable, Mapping

from routing.strategies.kv_aware import KvAware
from routing.strategies.least_loaded import LeastLoaded
from routing.strategies.prefix_aware import PrefixAware
from routing.strategies.round_robin import RoundRobin
from routing.strategies.session import Session
from routing.strategy import Strategy

STRATEGIES: Mapping[str, Callable[[random.Random], Strategy]] = {
    "round_robin": lambda _: RoundRobin(),
    "least_loaded": LeastLoaded,
    "session": Session,
    "prefix_aware": PrefixAware,
    "kv_aware": KvAware,
}
NAMES = tuple(STRATEGIES)

"""All entrants of the benchmarks by name: our strategies, policies of others, and bounds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.policies.names import BOUNDS, POLICIES
from benchmarks.policies.shared_cache import Order, SharedCache, ToTheOne, first_come
from engine_model.blocks import BlockPool
from engine_model.engine import Engine
from engine_model.host_tier import HostSink, HostTier, LoadTiming
from replay.entrant import Entrant, ours, timing_of
from replay.setting import Setting
from routing.queueing.release_policy import ReleasePolicy
from routing.strategies import NAMES

BLIND = "kv_aware_blind"
"""Name of kv_aware without the events of host tiers, for comparison."""
AT_ONCE = "kv_aware_at_once"
"""Name of kv_aware without waiting for prefixes that another worker is computing, for comparison."""


@dataclass(frozen=True, slots=True)
class Bound(Entrant):
    """One queue before one cache of all workers, which computes as all of them do."""

    order: Order = first_come

    def workers(self, setting: Setting) -> int:  # noqa: ARG002
        return 1

    def blocks(self, setting: Setting) -> int:
        return setting.workers * setting.blocks

    def host_tier(self, setting: Setting, sink: HostSink) -> HostTier | None:
        if not setting.host_blocks:
            return None
        tiers = setting.workers
        return HostTier(tiers * setting.host_blocks, LoadTiming(tiers * setting.load_tokens_per_s), sink=sink)

    def engine(self, setting: Setting, pool: BlockPool, worker: int = 0) -> Engine:  # noqa: ARG002
        return SharedCache(pool, [timing_of(setting, server) for server in range(setting.workers)], self.order)


ENTRANTS: Mapping[str, Entrant] = {
    **{name: Entrant(policy) for name, policy in POLICIES.items()},
    **{name: Bound(lambda _: ToTheOne(), order=order) for name, order in BOUNDS.items()},
    # Where others have a name that we have too, it is ours that is meant.
    **{name: ours(name) for name in NAMES},
    BLIND: ours("kv_aware", knows_host=False),
    AT_ONCE: ours("kv_aware", release=ReleasePolicy(min_shared_s=math.inf)),
}

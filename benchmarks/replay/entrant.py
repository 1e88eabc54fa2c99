"""An entrant: a policy, or one of our strategies, and its engines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.policies.names import BOUNDS, POLICIES
from benchmarks.policies.policy import Policy, Setup
from benchmarks.policies.shared_cache import Order, SharedCache, ToTheOne
from benchmarks.replay.gateway import Gateway
from benchmarks.replay.setting import Setting
from routing.strategies import NAMES
from simulator.blocks import BlockPool
from simulator.chunked import ChunkedEngine
from simulator.engine import Engine
from simulator.fifo import FifoEngine
from simulator.host_tier import HostSink, HostTier, LoadTiming
from simulator.timing import Timing

GATEWAY_TOKENS_PER_S = 2000.0
"""Rate that a gateway assumes before it has measured any: the default of `Fleet`."""


@dataclass(frozen=True, slots=True)
class Entrant:
    policy: Callable[[Setup], Policy]
    tokens_per_s: float | None = None
    """Rate of prefill that it assumes at first, where the setting names none; None: the true mean of all workers."""
    order: Order | None = None
    """Order of the one queue before one cache of all workers; None: each worker has its own."""

    def workers(self, setting: Setting) -> int:
        return 1 if self.order is not None else setting.workers

    def blocks(self, setting: Setting) -> int:
        """Return the size of each worker's cache."""
        return setting.workers * setting.blocks if self.order is not None else setting.blocks

    def host_tier(self, setting: Setting, sink: HostSink) -> HostTier | None:
        """Return the host tier of a worker, or None if the setting has no host tiers."""
        if not setting.host_blocks:
            return None
        tiers = setting.workers if self.order is not None else 1
        return HostTier(tiers * setting.host_blocks, LoadTiming(tiers * setting.load_tokens_per_s), sink=sink)

    def engine(self, setting: Setting, pool: BlockPool, worker: int = 0) -> Engine:
        """Return the engine of *worker*; a bound's only one computes as all of them do."""
        if self.order is not None:
            return SharedCache(pool, [_timing(setting, server) for server in range(setting.workers)], self.order)
        timing = _timing(setting, worker)
        return FifoEngine(pool, timing) if setting.timing == "fifo" else ChunkedEngine(pool, timing)

    def believed_tokens_per_s(self, setting: Setting) -> float:
        real = setting.mean_tokens_per_s
        if setting.rate_error is not None:
            return real * setting.rate_error
        return real if self.tokens_per_s is None else self.tokens_per_s


def _timing(setting: Setting, worker: int) -> Timing:
    return Timing(prefill_tokens_per_s=setting.prefill_tokens_per_s).at_speed(setting.worker_speed(worker))


def _ours(strategy: str, *, knows_host: bool = True) -> Entrant:
    return Entrant(lambda setup: Gateway(setup, strategy, knows_host=knows_host), GATEWAY_TOKENS_PER_S)


BLIND = "kv_aware_blind"
"""Name of kv_aware without the events of host tiers, for comparison."""


ENTRANTS: Mapping[str, Entrant] = {
    **{name: Entrant(policy) for name, policy in POLICIES.items()},
    **{name: Entrant(lambda _: ToTheOne(), order=order) for name, order in BOUNDS.items()},
    # Where others have a name that we have too, it is ours that is meant.
    **{name: _ours(name) for name in NAMES},
    BLIND: _ours("kv_aware", knows_host=False),
}

"""An entrant: a policy, and the engines that it sends requests to."""

from collections.abc import Callable
from dataclasses import dataclass

from engine_model.blocks import BlockPool
from engine_model.chunked import ChunkedEngine
from engine_model.engine import Engine
from engine_model.fifo import FifoEngine
from engine_model.host_tier import HostSink, HostTier, LoadTiming
from engine_model.timing import Timing
from replay.gateway import Gateway
from replay.policy import Policy, Setup
from replay.setting import Setting
from routing.queueing.release_policy import ReleasePolicy

GATEWAY_TOKENS_PER_S = 2000.0
"""Rate that a gateway assumes before it has measured any: the default of `Fleet`."""


@dataclass(frozen=True, slots=True)
class Entrant:
    policy: Callable[[Setup], Policy]
    tokens_per_s: float | None = None
    """Rate of prefill that it assumes at first, where the setting names none; None: the true mean of all workers."""

    def workers(self, setting: Setting) -> int:
        return setting.workers

    def blocks(self, setting: Setting) -> int:
        """Return the size of each worker's cache."""
        return setting.blocks

    def host_tier(self, setting: Setting, sink: HostSink) -> HostTier | None:
        """Return the host tier of a worker, or None if the setting has no host tiers."""
        if not setting.host_blocks:
            return None
        return HostTier(setting.host_blocks, LoadTiming(setting.load_tokens_per_s), sink=sink)

    def engine(self, setting: Setting, pool: BlockPool, worker: int = 0) -> Engine:
        """Return the engine of *worker*."""
        timing = timing_of(setting, worker)
        return FifoEngine(pool, timing) if setting.timing == "fifo" else ChunkedEngine(pool, timing)

    def believed_tokens_per_s(self, setting: Setting) -> float:
        real = setting.mean_tokens_per_s
        if setting.rate_error is not None:
            return real * setting.rate_error
        return real if self.tokens_per_s is None else self.tokens_per_s


def timing_of(setting: Setting, worker: int) -> Timing:
    return Timing(prefill_tokens_per_s=setting.prefill_tokens_per_s).at_speed(setting.worker_speed(worker))


def ours(
    strategy: str,
    *,
    knows_host: bool = True,
    knows_blocks: bool = True,
    release: ReleasePolicy = ReleasePolicy(),  # noqa: B008
) -> Entrant:
    """Return our own *strategy*, in the objects that serve in production.

    *knows_host* is false if engines report nothing about their host tiers. *knows_blocks* is false if engines send no
    KV events.
    """

    def gateway(setup: Setup) -> Gateway:
        return Gateway(setup, strategy, knows_host=knows_host, knows_blocks=knows_blocks, release=release)

    return Entrant(gateway, GATEWAY_TOKENS_PER_S)

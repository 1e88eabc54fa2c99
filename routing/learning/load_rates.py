"""Learned time to load cached blocks to the GPU from slower tiers: host memory, disks and shared stores.

The time per token is learned from measured prefills: it is what remains of a prefill's time after the expected time of
the computed tokens. Until a tier has been measured, loading a token takes a configured share of the time to compute it.
"""

from dataclasses import dataclass
from typing import Final, Literal

from routing.loads import Loads

PRIOR_TOKENS: Final = 4096.0
"""Weight of the configured price, in tokens. A few loads outweigh it, because it might be wrong by a large factor."""
MEMORY: Final = 0.95
"""Factor by which each new measurement multiplies the weight of the earlier ones and of the configured price."""

S_PER_TOKEN_MIN: Final = 1e-9
"""Seconds per token of the fastest load that is reported, so that a load time of 0 gives a finite speed."""
LoadTier = Literal["cpu", "disk", "shared", "peer"]
"""Place from which cached blocks are loaded. "peer" is the host memory of another worker."""


@dataclass(frozen=True, slots=True)
class TierPrices:
    """Cost to load a cached block from outside GPU memory, as a share (0 to 1) of the cost to compute the block.
    Measured times replace these prices.

    The defaults are 1 minus the credits in NVIDIA Dynamo's router: 0.75 for host memory, 0.25 for disk, 0.5 for shared
    storage.
    """

    cpu: float = 0.25
    disk: float = 0.75
    shared: float = 0.5
    peer: float = 0.25
    """Cost of a block that another worker sends from its host memory, in addition to `peer_latency_s`."""
    peer_latency_s: float = 0.03
    """Seconds to agree with another worker on a transfer, whatever its size."""


class LoadRate:
    """Seconds per token of loads from one tier."""

    __slots__ = ("_load_s", "_price", "_prior_tokens", "_tokens")

    def __init__(self, price: float) -> None:
        """Create the rate. *price* is the assumed load time of a token as a share of the time to compute it."""
        self._price = price
        self._prior_tokens = PRIOR_TOKENS
        self._load_s = 0.0
        self._tokens = 0.0

    def s_per_token(self, prefill_s_per_token: float) -> float:
        """Return the predicted load time per token, given that computing a token takes *prefill_s_per_token*."""
        assumed_s = self._prior_tokens * self._price * prefill_s_per_token
        # The computed part of a prefill may take less time than expected, so that less than nothing seems to remain.
        return max(0.0, self._load_s + assumed_s) / (self._tokens + self._prior_tokens)

    @property
    def is_learned(self) -> bool:
        """Whether any load has been measured."""
        return self._tokens > 0.0

    def learn(self, tokens: float, load_s: float) -> None:
        self._prior_tokens *= MEMORY
        self._tokens = self._tokens * MEMORY + tokens
        self._load_s = self._load_s * MEMORY + load_s


class LoadRates:
    """Seconds per token of loads from each tier, shared by the workers of a fleet."""

    def __init__(self, prices: TierPrices) -> None:
        self._cpu = LoadRate(prices.cpu)
        self._disk = LoadRate(prices.disk)
        self._shared = LoadRate(prices.shared)
        self._peer = LoadRate(prices.peer)
        self._peer_latency_s = prices.peer_latency_s

    def load_s(self, loads: Loads, prefill_s_per_token: float) -> float:
        """Return the predicted seconds for *loads*, given that computing a token takes *prefill_s_per_token*."""
        return sum([seconds for _, _, seconds in self._parts(loads, prefill_s_per_token)])

    def learn(self, loads: Loads, load_s: float, prefill_s_per_token: float) -> None:
        """Learn that *loads* took *load_s* seconds, which are divided among the tiers as predicted."""
        parts = self._parts(loads, prefill_s_per_token)
        predicted_s = sum([seconds for _, _, seconds in parts])
        for rate, tokens, seconds in parts:
            share = seconds / predicted_s if predicted_s > 0.0 else tokens / loads.total
            fixed_s = self._peer_latency_s if rate is self._peer else 0.0
            rate.learn(tokens, load_s * share - fixed_s)

    def tokens_per_s(self, prefill_s_per_token: float) -> dict[LoadTier, float]:
        """Return the learned speed of loads from each tier that has been measured, by tier."""
        rates: dict[LoadTier, LoadRate] = {
            "cpu": self._cpu,
            "disk": self._disk,
            "shared": self._shared,
            "peer": self._peer,
        }
        return {
            tier: 1.0 / max(S_PER_TOKEN_MIN, rate.s_per_token(prefill_s_per_token))
            for tier, rate in rates.items()
            if rate.is_learned
        }

    def _parts(self, loads: Loads, prefill_s_per_token: float) -> list[tuple[LoadRate, float, float]]:
        """Return the rate, the tokens and the predicted seconds of each tier that *loads* uses."""
        tiers = ((self._cpu, loads.cpu), (self._disk, loads.disk), (self._shared, loads.shared))
        parts = [
            (rate, tokens, tokens * rate.s_per_token(prefill_s_per_token)) for rate, tokens in tiers if tokens > 0.0
        ]
        if loads.peer > 0.0:
            seconds = self._peer_latency_s + loads.peer * self._peer.s_per_token(prefill_s_per_token)
            parts.append((self._peer, loads.peer, seconds))
        return parts

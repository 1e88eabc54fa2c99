"""Words by which engines name the place of a block."""

from collections.abc import Mapping
from typing import Final

from cache_index.event import Tier

TIERS: Final[Mapping[str, Tier]] = {
    "GPU": Tier.GPU,
    "DEVICE": Tier.GPU,
    "CPU": Tier.CPU,
    "CPU_PINNED": Tier.CPU,
    "CPU_TIER1": Tier.CPU,
    "CPU_TIER2": Tier.DISK,
    "DISK": Tier.DISK,
    "NVME": Tier.DISK,
    "STORAGE": Tier.DISK,
    "EXTERNAL": Tier.SHARED,
    "NETWORK": Tier.SHARED,
    "REMOTE": Tier.SHARED,
    "SHARED": Tier.SHARED,
}
"""vLLM says GPU, CPU, STORAGE; SGLang GPU, CPU_PINNED, DISK, EXTERNAL; LMCache says cpu; the others are Dynamo's."""

_LOCALITIES: Final[Mapping[str | None, bool]] = {None: False, "LOCAL": False, "REMOTE": True}
"""Whether a block is remote from the publishing engine, by vLLM's locality."""


def tier_of(medium: str | None, locality: str | None = None) -> Tier | None:
    """Return the tier of a medium; no medium means the GPU. None: a place that is not known here."""
    is_remote = _LOCALITIES.get(locality)
    tier = Tier.GPU if medium is None else TIERS.get(medium.upper())
    if is_remote is None or tier is None:
        return None
    return Tier.SHARED if is_remote else tier

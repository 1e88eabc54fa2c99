"""The words with which engines say where a block lies."""

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
"""vLLM's word for whether a block lies elsewhere, seen from the engine that tells of it."""


def tier_of(medium: str | None, locality: str | None = None) -> Tier | None:
    """Where that is; without a medium on the GPU. None: in no place that is known here."""
    is_remote = _LOCALITIES.get(locality)
    tier = Tier.GPU if medium is None else TIERS.get(medium.upper())
    if is_remote is None or tier is None:
        return None
    return Tier.SHARED if is_remote else tier

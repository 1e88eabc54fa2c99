"""Names that engines use for the storage media of KV cache blocks."""

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
"""Cache tiers by the name of the storage medium. vLLM uses GPU, CPU and STORAGE, SGLang uses GPU, CPU_PINNED, DISK and
EXTERNAL, and LMCache uses cpu. The other names are Dynamo's.
"""

_LOCALITIES: Final[Mapping[str | None, bool]] = {None: False, "LOCAL": False, "REMOTE": True}
"""Whether a block is remote from the engine that reports it, for each of vLLM's values for the locality."""


def tier_of(medium: str | None, locality: str | None = None) -> Tier | None:
    """Return the cache tier of a storage medium, or None if it is unknown. A missing medium stands for the GPU."""
    is_remote = _LOCALITIES.get(locality)
    tier = Tier.GPU if medium is None else TIERS.get(medium.upper())
    if is_remote is None or tier is None:
        return None
    return Tier.SHARED if is_remote else tier

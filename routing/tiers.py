"""What it costs to use a block that is cached, but not on the GPU."""

from dataclasses import dataclass

from cache_index.hit import Hit


@dataclass(frozen=True, slots=True)
class TierPrices:
    """Time to load a block as a share of the time to compute it, 0 to 1.

    The defaults are what NVIDIA Dynamo's router credits: 0.75 for host memory, 0.25 for disks, 0.5 for shared stores.
    """

    cpu: float = 0.25
    disk: float = 0.75
    shared: float = 0.5

    def blocks(self, hit: Hit) -> float:
        """Blocks that could be computed in the time that loading those of *hit* takes."""
        return hit.cpu * self.cpu + hit.disk * self.disk + hit.shared * self.shared

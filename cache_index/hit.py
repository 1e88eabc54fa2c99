"""Part of a prompt that a worker has in its cache."""

from typing import Final

from cache_index.native import mypyc_attr
from cache_index.value import Value


@mypyc_attr(acyclic=True)
class Hit(Value):
    """Number of leading blocks of a prompt that a worker can use, by tier."""

    __match_args__ = ("blocks", "cpu", "disk", "shared")
    __slots__ = __match_args__

    def __init__(
        self,
        blocks: int,
        cpu: int = 0,
        disk: int = 0,
        shared: int = 0,
    ) -> None:
        self.blocks: Final = blocks
        """Number of cached blocks in all tiers together."""
        self.cpu: Final = cpu
        """Number of cached blocks to load from the worker's CPU memory, because they are not on its GPU."""
        self.disk: Final = disk
        self.shared: Final = shared
        """Number of cached blocks to load from a shared store, because no tier of the worker has them."""

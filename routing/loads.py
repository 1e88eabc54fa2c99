"""Cached tokens of a prompt that an engine must load to its GPU from slower tiers."""

from typing import Final

from cache_index.hit import Hit
from cache_index.native import mypyc_attr
from cache_index.value import Value


@mypyc_attr(acyclic=True)
class Loads(Value):
    """Number of tokens to load from each tier before a prompt can be computed."""

    __match_args__ = ("cpu", "disk", "shared", "peer")
    __slots__ = __match_args__

    def __init__(self, cpu: float = 0.0, disk: float = 0.0, shared: float = 0.0, peer: float = 0.0) -> None:
        self.cpu: Final = cpu
        self.disk: Final = disk
        self.shared: Final = shared
        self.peer: Final = peer
        """Tokens to pull from the host memory of another worker."""

    @property
    def total(self) -> float:
        return self.cpu + self.disk + self.shared + self.peer

    def pulling(self, tokens: float) -> "Loads":
        """Return these loads with *tokens* tokens that are pulled from another worker."""
        return Loads(self.cpu, self.disk, self.shared, tokens)


NO_LOADS: Final = Loads()


def loads_of(hit: Hit, block_tokens: int) -> Loads:
    """Return the tokens to load for the cache hit *hit*, whose blocks have *block_tokens* tokens each."""
    if not (hit.cpu or hit.disk or hit.shared):
        return NO_LOADS
    return Loads(
        float(hit.cpu * block_tokens),
        float(hit.disk * block_tokens),
        float(hit.shared * block_tokens),
    )

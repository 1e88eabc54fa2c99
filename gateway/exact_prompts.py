"""The exact prompts of one model's requests, hashed as its workers' engines cut them into blocks."""

from collections import Counter

import msgspec

from cache_index import Prefix
from cache_index.tokens import TokenHasher, scope_of
from gateway.tokenizing.exactness import Exact, Reason
from gateway.tokenizing.later import LoadedLater
from gateway.tokenizing.rung import RawPrompt, Rung
from routing.fleet import Fleet


class ExactPrompt(msgspec.Struct, frozen=True, gc=False):
    """One prompt by its tokens."""

    prefixes: tuple[Prefix, ...]
    """Its leading part that is certain, once for each size of blocks that the workers have."""
    tokens: int
    """Of the whole prompt."""


class ExactPrompts:
    """Asks *rung*, as long as the engine of some worker of *fleet* tells of its cache: else nothing could be compared.

    *base* is the model that the workers load, *adapter* the LoRA adapter of it that requests are for. *hasher* is the
    one that hashes what engines tell. *local* is the part of *rung* that makes tokens here, if there is one.
    """

    def __init__(
        self,
        rung: Rung,
        fleet: Fleet,
        *,
        hasher: TokenHasher,
        upstream_name: str,
        base: str,
        adapter: str | None,
        local: LoadedLater | None = None,
    ) -> None:
        self.local = local
        self._rung = rung
        self._fleet = fleet
        self._hasher = hasher
        self._upstream_name = upstream_name
        self._base = base
        self._adapter = adapter
        self.known = 0
        self.unknown: Counter[Reason] = Counter()
        """Prompts whose tokens could not be told, by why."""

    async def of(self, path: str, raw: bytes, salt: str | None) -> ExactPrompt | None:
        """The prompt of *raw*, which came to *path* with the cache salt *salt*; None if its tokens cannot be told."""
        sizes = self._fleet.block_sizes
        if not sizes:
            return None
        told = await self._rung.ids(RawPrompt(path, raw, self._upstream_name))
        if not isinstance(told, Exact):
            self.unknown[told.reason] += 1
            return None
        self.known += 1
        scope, ids = scope_of(self._base, self._adapter, salt), told.exact_ids
        return ExactPrompt(tuple(self._hasher.prefix(ids, block_size=size, scope=scope) for size in sizes), told.tokens)

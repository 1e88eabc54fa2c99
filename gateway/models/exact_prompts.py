"""Exact prompts of one model's requests, hashed in the blocks of its engines."""

from collections import Counter

import msgspec

from cache_index import Prefix
from cache_index.tokens import TokenHasher, scope_of
from gateway.models.tokenizing.exactness import Exact, Reason
from gateway.models.tokenizing.later import LoadedLater
from gateway.models.tokenizing.token_source import RawPrompt, TokenSource
from routing.fleet import Fleet


class ExactPrompt(msgspec.Struct, frozen=True, gc=False):
    """Exact tokens of one prompt."""

    prefixes: tuple[Prefix, ...]
    """Certain part of the prompt, once for each block size of the workers."""
    tokens: int
    """Tokens of the whole prompt."""


class ExactPrompts:
    """Asks *token_source* while the engine of a worker of *fleet* publishes KV events: else hashes match nothing.

    *base* is the model that the workers load, *adapter* its LoRA adapter that requests are for. *hasher* hashes KV
    events as well. *local* is the part of *token_source* that tokenizes here, if there is one.
    """

    def __init__(
        self,
        token_source: TokenSource,
        fleet: Fleet,
        *,
        hasher: TokenHasher,
        upstream_name: str,
        base: str,
        adapter: str | None,
        local: LoadedLater | None = None,
    ) -> None:
        self.local = local
        self._token_source = token_source
        self._fleet = fleet
        self._hasher = hasher
        self._upstream_name = upstream_name
        self._base = base
        self._adapter = adapter
        self.known = 0
        self.unknown: Counter[Reason] = Counter()
        """Prompts without exact tokens, by reason."""

    async def tokenize(self, path: str, raw: bytes, salt: str | None) -> ExactPrompt | None:
        """Return the prompt of *raw*, a body sent to *path*, with the cache salt *salt*; None if its tokens are not
        known.
        """
        sizes = self._fleet.caches.block_sizes
        if not sizes:
            return None
        outcome = await self._token_source.ids(RawPrompt(path, raw, self._upstream_name))
        if not isinstance(outcome, Exact):
            self.unknown[outcome.reason] += 1
            return None
        self.known += 1
        scope, ids = scope_of(self._base, self._adapter, salt), outcome.exact_ids
        return ExactPrompt(
            tuple(self._hasher.prefix(ids, block_size=size, scope=scope) for size in sizes), outcome.tokens
        )

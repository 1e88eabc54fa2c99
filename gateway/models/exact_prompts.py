"""Exact prompt tokens of one model's requests, hashed with the block sizes of its engines."""

from collections import Counter

import msgspec

from cache_index import Prefix
from cache_index.tokens import TokenHasher, scope_of
from gateway.models.tokenizing.exactness import Exact, Reason
from gateway.models.tokenizing.later import LoadedLater
from gateway.models.tokenizing.token_source import RawPrompt, TokenSource
from routing.fleet import Fleet


class ExactPrompt(msgspec.Struct, frozen=True, gc=False):
    """Exact tokens of one prompt, as block hashes."""

    prefixes: tuple[Prefix, ...]
    """Block hashes of the tokens that are certain, with one prefix for each block size of the workers."""
    tokens: int
    """Number of tokens in the whole prompt."""


class ExactPrompts:
    """Tokenizer for prompts that uses *token_source* while an engine of *fleet* publishes KV events to compare with.

    *base* is the model that the workers load, and *adapter* is the LoRA adapter of the requests, if any. *hasher* also
    hashes KV events. *local* is the part of *token_source* that tokenizes inside the gateway, if any.
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
        """Number of prompts without exact tokens, by reason."""

    async def tokenize(self, path: str, raw: bytes, salt: str | None) -> ExactPrompt | None:
        """Return the exact prompt of *raw*, a request body for *path*, with the cache salt *salt*. Return None if the
        tokens are unknown.
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

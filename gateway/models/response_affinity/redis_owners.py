"""Owners of responses in Redis or Valkey, which forgets them by itself."""

import asyncio
from collections.abc import Mapping

from gateway.models.response_affinity.owners import ResponseOwner, owner_in, row_of
from gateway.storage.redis_link import RedisLink

_PREFIX = "warmgate:response:"
"""Each response is a key of its own, so a cluster spreads them."""


class RedisOwners:
    """`OwnerStore`, each owner a value with *lifetime_s* to live. One round trip, or two where it was there."""

    def __init__(self, link: RedisLink, *, lifetime_s: float) -> None:
        self._link = link
        self._lifetime_s = int(lifetime_s)

    async def find(self, digest: str) -> ResponseOwner | None:
        """See `OwnerStore.find`."""
        raw = await self._link.ask(lambda client: client.get(_PREFIX + digest))
        return None if raw is None else owner_in(raw)

    async def keep(self, owners: Mapping[str, ResponseOwner]) -> Mapping[str, ResponseOwner]:
        """See `OwnerStore.keep`."""
        earlier = await asyncio.gather(*(self._kept(digest, owner) for digest, owner in owners.items()))
        return {digest: owner for digest, owner in zip(owners, earlier, strict=True) if owner is not None}

    async def _kept(self, digest: str, owner: ResponseOwner) -> ResponseOwner | None:
        """Store *owner* unless there is one; return the one that was there, or None."""
        value = row_of(owner)
        key = _PREFIX + digest
        if await self._link.ask(lambda client: client.set(key, value, nx=True, ex=self._lifetime_s)):
            return None
        return await self.find(digest)

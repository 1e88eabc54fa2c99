"""Response owners in Redis or Valkey, which delete each owner at the end of its lifetime."""

import asyncio
from collections.abc import Mapping

from gateway.models.response_affinity.owners import ResponseOwner, owner_in, row_of
from gateway.storage.redis_link import RedisLink

_PREFIX = "warmgate:response:"
"""Prefix of the Redis keys of responses. A cluster distributes separate keys over its nodes."""


class RedisOwners:
    """Store of response owners in Redis. Owners expire after *lifetime_s*. A call takes one round trip, or two for
    known owners.
    """

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
        """Store *owner* unless the response already has an owner. Return the existing owner, or None."""
        value = row_of(owner)
        key = _PREFIX + digest
        if await self._link.ask(lambda client: client.set(key, value, nx=True, ex=self._lifetime_s)):
            return None
        return await self.find(digest)

"""Owners of responses in Redis or Valkey, which forgets them by itself."""

import asyncio
from collections.abc import Mapping

from gateway.response_owners import Owner, owner_in, row_of
from gateway.storage.redis_link import RedisLink

_PREFIX = "warmgate:response:"
"""Each response is a key of its own, so a cluster spreads them."""


class RedisOwners:
    """`OwnerStore`, each owner a value with *lifetime_s* to live. One round trip, or two where it was there."""

    def __init__(self, link: RedisLink, *, lifetime_s: float) -> None:
        self._link = link
        self._lifetime_s = int(lifetime_s)

    async def find(self, digest: str) -> Owner | None:
        """See `OwnerStore.find`."""
        raw = await self._link.ask(lambda client: client.get(_PREFIX + digest))
        return None if raw is None else owner_in(raw)

    async def keep(self, owners: Mapping[str, Owner]) -> Mapping[str, Owner]:
        """See `OwnerStore.keep`."""
        earlier = await asyncio.gather(*(self._kept(digest, owner) for digest, owner in owners.items()))
        return {digest: owner for digest, owner in zip(owners, earlier, strict=True) if owner is not None}

    async def _kept(self, digest: str, owner: Owner) -> Owner | None:
        """Who has it already; None: *owner* has it from now on, or had it."""
        value = row_of(owner)
        key = _PREFIX + digest
        if await self._link.ask(lambda client: client.set(key, value, nx=True, ex=self._lifetime_s)):
            return None
        return await self.find(digest)

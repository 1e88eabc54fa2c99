"""Records of idempotent requests in Redis or Valkey, which delete expired records automatically."""

import msgspec

from gateway.api.admin_v1.claims import LIFETIME_S, Claim
from gateway.storage.redis_link import RedisLink

_PREFIX = "warmgate:{directory}:claim:"
"""Prefix of the Redis key of a request record. Its hash tag selects the cluster slot of teams and keys."""


class RedisClaims:
    """Implementation of `Claims` with one expiring Redis value per request. A call takes one or two round trips."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def find(self, claim_id: str) -> Claim | None:
        raw = await self._link.ask(lambda client: client.get(_PREFIX + claim_id))
        return None if raw is None else msgspec.json.decode(raw, type=Claim)

    async def take(self, claim: Claim) -> Claim:
        value = msgspec.json.encode(claim)
        taken = await self._link.ask(lambda client: client.set(_PREFIX + claim.id, value, nx=True, ex=LIFETIME_S))
        # What is there already may end between the two questions: then it is as good as if it had never been.
        return claim if taken else await self.find(claim.id) or claim

    async def release(self, claim_id: str) -> None:
        await self._link.ask(lambda client: client.delete(_PREFIX + claim_id))

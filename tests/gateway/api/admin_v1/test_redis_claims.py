"""Claims in Redis; tests/contracts/test_claims.py holds them to the seam."""

import pytest
from redis.asyncio import Redis

from gateway.api.admin_v1.claims import LIFETIME_S, Claim
from gateway.api.admin_v1.redis_claims import RedisClaims
from gateway.storage.redis_link import redis_link
from tests.storage import PATIENCE_S, RedisServer

pytestmark = pytest.mark.redis


async def test_redis_forgets_a_claim_by_itself(redis_server: RedisServer) -> None:
    """After a day."""
    link = redis_link(redis_server.url, timeout_s=PATIENCE_S)
    await RedisClaims(link).take(Claim("a", "one", "blue"))
    await link.aclose()
    async with Redis.from_url(redis_server.url) as client:
        (key,) = await client.keys("*")
        left_s = await client.ttl(key)

    assert LIFETIME_S - 60 < left_s <= LIFETIME_S

"""Owners in Redis: what the contract (tests/contracts/test_owner_store.py) does not say."""

import pytest

from cache_index import WorkerId
from gateway.models.response_affinity.owners import ResponseOwner
from gateway.models.response_affinity.redis_owners import RedisOwners
from gateway.storage.redis_link import redis_link
from tests.storage import PATIENCE_S, RedisServer


@pytest.mark.redis
async def test_redis_forgets_them_by_itself(redis_server: RedisServer) -> None:
    """When the response is over; to be found again does not make it last longer."""
    link = redis_link(redis_server.url, timeout_s=PATIENCE_S)
    await RedisOwners(link, lifetime_s=60).keep({"a": ResponseOwner("tiny", WorkerId("a"), "blue")})
    await RedisOwners(link, lifetime_s=6000).keep({"a": ResponseOwner("tiny", WorkerId("a"), "red")})

    assert 0 < await link.ask(lambda client: client.ttl("warmgate:response:a")) <= 60
    await link.aclose()

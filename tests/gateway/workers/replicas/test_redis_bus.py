"""Frames over a real Redis."""

import pytest

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.redis_link import redis_link
from gateway.workers.replicas.redis_bus import RedisBus
from tests.storage import PATIENCE_S, RedisServer


@pytest.mark.redis
async def test_a_subscription_gets_the_frames_of_its_group(redis_server: RedisServer) -> None:
    """Also its own, and None after a while without a frame."""
    blue, red = (RedisBus(redis_link(redis_server.url, timeout_s=PATIENCE_S), group) for group in ("blue", "red"))
    frames = await blue.subscribe()
    await red.publish(b"other")
    await blue.publish(b"\x00own")
    found = None
    while found is None:
        found = await frames.next(0.1)

    assert b"\x00own" == found
    assert await frames.next(0.01) is None
    await frames.aclose()
    await blue.aclose()
    await red.aclose()


async def test_a_store_that_is_away_says_so() -> None:
    bus = RedisBus(redis_link("unix:///nowhere/at/all", timeout_s=PATIENCE_S), "default")
    with pytest.raises(StoreUnavailable):
        await bus.subscribe()
    with pytest.raises(StoreUnavailable):
        await bus.publish(b"lost")
    await bus.aclose()

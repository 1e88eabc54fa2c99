"""The key of all replicas, in a real Redis."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.redis_link import RedisLink, redis_link
from gateway.workers.replicas.shared_key import SharedKey, derived
from tests.storage import PATIENCE_S, RedisServer

ONE, OTHER = b"1" * 32, b"2" * 32


@asynccontextmanager
async def linked(url: str) -> AsyncIterator[RedisLink]:
    link = redis_link(url, timeout_s=PATIENCE_S)
    try:
        yield link
    finally:
        await link.aclose()


@pytest.mark.redis
async def test_the_first_one_makes_it_and_the_others_take_it(redis_server: RedisServer) -> None:
    """Each says whether it has another one now; a second look changes nothing."""
    async with linked(redis_server.url) as link:
        first, second = SharedKey(link, "default", own=ONE), SharedKey(link, "default", own=OTHER)

        assert [False, True, False, False] == [await each.agree() for each in (first, second, second, first)]
        assert (ONE, ONE) == (first.value, second.value)


@pytest.mark.redis
async def test_groups_have_keys_of_their_own(redis_server: RedisServer) -> None:
    """They are not any of each other's business."""
    async with linked(redis_server.url) as link:
        keys = [SharedKey(link, "blue", own=ONE), SharedKey(link, "red", own=OTHER)]

        assert [False, False] == [await key.agree() for key in keys]
        assert [ONE, OTHER] == [key.value for key in keys]


@pytest.mark.redis
async def test_a_redis_that_lost_it_gets_it_back(redis_server: RedisServer) -> None:
    """From anyone who runs: a newcomer takes that one."""
    async with linked(redis_server.url) as link:
        running, newcomer = SharedKey(link, "default", own=ONE), SharedKey(link, "default", own=OTHER)
        await running.agree()
        with redis_server.client() as client:
            client.flushall()

        assert [False, True] == [await running.agree(), await newcomer.agree()]
        assert ONE == newcomer.value


@pytest.mark.redis
async def test_what_is_no_key_is_left_alone(redis_server: RedisServer) -> None:
    """Somebody else's value under our name: everybody goes on under its own."""
    with redis_server.client() as client:
        client.set("warmgate:replicas:default:key", "short")
    async with linked(redis_server.url) as link:
        key = SharedKey(link, "default", own=ONE)

        assert not await key.agree()
    assert ONE == key.value


async def test_a_store_that_is_away_says_so() -> None:
    """The own key serves meanwhile."""
    async with linked("unix:///nowhere/at/all") as link:
        key = SharedKey(link, "default", own=ONE)
        with pytest.raises(StoreUnavailable):
            await key.agree()

    assert ONE == key.value


def test_keys_for_two_purposes_differ() -> None:
    """They are the same in every process, and 32 bytes long."""
    text, tokens = derived(ONE, "text"), derived(ONE, "tokens")

    assert (32, 32) == (len(text), len(tokens))
    assert "fb5c00b8" == text.hex()[:8]
    assert 4 == len({text, tokens, derived(OTHER, "text"), ONE})

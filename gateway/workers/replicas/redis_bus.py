"""Channel of a Redis server: ``warmgate:replicas:<group>``."""

import asyncio
from contextlib import suppress

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import RedisClusterException, RedisError

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.redis_link import TIMEOUT_S, RedisLink
from gateway.workers.replicas.bus import Subscription


class RedisBus:
    """Channel of the gateways in *group* that use the Redis server at *link*."""

    def __init__(self, link: RedisLink, group: str) -> None:
        self._link = link
        self._channel = f"warmgate:replicas:{group}"

    async def subscribe(self) -> Subscription:
        return _RedisSubscription(await self._link.ask(self._subscribed))

    async def publish(self, frame: bytes) -> None:
        await self._link.ask(lambda client: client.publish(self._channel, frame))

    async def run(self) -> None:
        await self._link.run()

    async def aclose(self) -> None:
        await self._link.aclose()

    async def _subscribed(self, client: "Redis") -> PubSub:
        await client.ping()  # a client of a cluster knows no node before its first command; SUBSCRIBE does not count
        messages = client.pubsub()
        await messages.subscribe(self._channel)
        return messages


class _RedisSubscription:
    def __init__(self, messages: PubSub) -> None:
        self._messages = messages

    async def next(self, timeout_s: float) -> bytes | None:
        try:
            # If its connection breaks, it makes another one: that must not take for ever.
            async with asyncio.timeout(timeout_s + TIMEOUT_S):
                message = await self._messages.get_message(ignore_subscribe_messages=True, timeout=timeout_s)
        except (RedisError, RedisClusterException, OSError) as fault:  # a TimeoutError is an OSError
            raise StoreUnavailable(f"The store does not answer: {type(fault).__name__}") from None
        return None if message is None else message["data"]

    async def aclose(self) -> None:
        with suppress(RedisError, RedisClusterException, OSError):
            await self._messages.aclose()  # type: ignore[no-untyped-call]

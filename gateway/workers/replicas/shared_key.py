"""The key under which all replicas hash prompts, so that their hashes can be compared.

    warmgate:replicas:<group>:key   32 random bytes

The first replica makes it. A running replica puts it back where a Redis lost it.
"""

import hashlib
from typing import Any

from redis.asyncio import Redis

from gateway.storage.redis_link import RedisLink

KEY_BYTES = 32


class SharedKey:
    """The key of the replicas of *group*, by *link*. *own* is used, and offered, until another one is found there."""

    def __init__(self, link: RedisLink, group: str, *, own: bytes) -> None:
        self._link = link
        self._name = f"warmgate:replicas:{group}:key"
        self.value = own

    async def agree(self) -> bool:
        """Read the key, or store ours if it is missing; return whether `value` has changed.

        One round trip, or two.

        Raises:
            StoreUnavailable: the key cannot be read.
        """

        async def question(client: "Redis") -> Any:
            await client.set(self._name, self.value, nx=True)
            return await client.get(self._name)

        found = await self._link.ask(question)
        if not isinstance(found, bytes) or len(found) != KEY_BYTES or found == self.value:
            return False  # what is no key of ours is left alone: then everybody hashes under its own
        self.value = found
        return True


def derived(key: bytes, purpose: str) -> bytes:
    """32 bytes for one *purpose* of at most 16 letters; those for others tell nothing of them."""
    return hashlib.blake2b(key=key, digest_size=KEY_BYTES, person=purpose.encode("ascii")).digest()

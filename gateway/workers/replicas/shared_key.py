"""Key with which all gateway replicas hash prompts, so that the hashes can be compared.

    warmgate:replicas:<group>:key   32 random bytes

The first replica creates the key. If Redis loses it, a running replica stores it again.
"""

import hashlib
from typing import Any

from redis.asyncio import Redis

from gateway.storage.redis_link import RedisLink

KEY_BYTES = 32


class SharedKey:
    """Key that the replicas in *group* share through the store at *link*. If there is no key yet, *own* is stored and
    used.
    """

    def __init__(self, link: RedisLink, group: str, *, own: bytes) -> None:
        self._link = link
        self._name = f"warmgate:replicas:{group}:key"
        self.value = own

    async def agree(self) -> bool:
        """Read the shared key. If no key exists yet, store our own key. Return whether `value` has changed.

        This takes one or two round trips.

        Raises:
            StoreUnavailable: if the key cannot be read.
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
    """Return a 32-byte key derived for *purpose*, an ASCII string of at most 16 characters. It reveals nothing about
    the keys for other purposes.
    """
    return hashlib.blake2b(key=key, digest_size=KEY_BYTES, person=purpose.encode("ascii")).digest()

"""Links that log in once, without an admin key being typed."""

import hashlib
from collections.abc import Callable
from typing import Final

from gateway.api.admin_access import AdminKey

LIFETIME_S: Final = 600.0
"""Seconds for which a link can be used."""
MAX_LINKS: Final = 100


class LoginLinks:
    """Tokens of unused links, as digests, with the admin key that each of them stands for."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._links: dict[bytes, tuple[AdminKey, float]] = {}

    def add(self, token: str, key: AdminKey) -> None:
        """Allow one login as *key* with *token*. The oldest link is dropped if there are too many."""
        self._links[_digest(token)] = (key, self._clock())
        while len(self._links) > MAX_LINKS:
            del self._links[next(iter(self._links))]

    def exchange(self, token: str) -> AdminKey | None:
        """Return the admin key of *token* and forget the token. Return None if it is unknown, used or expired."""
        key, created_at = self._links.pop(_digest(token), (None, 0.0))
        return key if self._clock() - created_at < LIFETIME_S else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()

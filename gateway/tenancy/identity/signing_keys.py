"""Signing keys of one issuer, read from its JSON Web Key Set, through rotations and outages.

1. The keys are read again at regular intervals, and at once if a token names an unknown key, but at most once every
   `LEAST_GAP_S` seconds. Invented key ids therefore cause little load on the issuer.
2. While the issuer is unavailable, its last keys stay valid for a bounded time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.protocol.errors import IssuerUnavailable
from gateway.tenancy.identity.public_keys import BadKeySetError, PublicKey, public_keys

_log = logging.getLogger(__name__)

LEAST_GAP_S: Final = 2.0
"""Minimum seconds between two attempts to read the keys."""


class KeysUnreadableError(Exception):
    """Raised if the keys of an issuer cannot be read. The text contains no secrets."""


class SigningKeys:
    """Signing keys of the issuer *name*.

    *read* returns the JSON Web Key Set and raises KeysUnreadableError. Keys that were read *stale_s* seconds ago are no
    longer used. *clock* returns monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], Awaitable[bytes]],
        *,
        clock: Callable[[], float],
        refresh_s: float,
        stale_s: float,
    ) -> None:
        self._name = name
        self._read = read
        self._clock = clock
        self._refresh_s = refresh_s
        self._stale_s = stale_s
        self._keys: tuple[PublicKey, ...] = ()
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._is_reading = asyncio.Lock()
        self.fault: str | None = None
        """Reason why the last attempt to read the keys failed, or None if it succeeded."""

    async def find(self, key_id: str | None, algorithm: str) -> PublicKey | None:
        """Return the key with *key_id* for *algorithm*, or None if the issuer does not have it.

        Without *key_id*, the issuer must have exactly one key for *algorithm*.

        Raises:
            IssuerUnavailable: if the key is unknown and the keys cannot be read.
        """
        key = self._known(key_id, algorithm)
        if key is not None:
            return key
        await self._read_if_due()
        key = self._known(key_id, algorithm)
        if key is None and self.fault is not None:
            text = f"The keys of the issuer {self._name!r} cannot be read, so the token cannot be verified"
            raise IssuerUnavailable(text, retry_after_s=LEAST_GAP_S)
        return key

    async def run(self) -> None:
        """Read the keys now and then again at regular intervals, until canceled."""
        while True:
            await self._read_if_due()
            await asyncio.sleep(self._refresh_s if self.fault is None else min(self._refresh_s, LEAST_GAP_S))

    def _known(self, key_id: str | None, algorithm: str) -> PublicKey | None:
        if self._read_at is None or self._clock() - self._read_at >= self._stale_s:
            return None
        found = [key for key in self._keys if algorithm in key.algorithms and (key_id is None or key_id == key.key_id)]
        return found[0] if len(found) == 1 else None

    async def _read_if_due(self) -> None:
        async with self._is_reading:
            now = self._clock()
            if self._tried_at is not None and now - self._tried_at < LEAST_GAP_S:
                return
            self._tried_at = now
            try:
                self._keys = public_keys(await self._read())
            except (KeysUnreadableError, BadKeySetError) as fault:
                self._note(str(fault))
            else:
                self._read_at = self._clock()
                self._note(None)

    def _note(self, fault: str | None) -> None:
        """Log when reading begins to fail, and when it succeeds again."""
        if fault != self.fault:
            if fault is None:
                _log.info("the keys of the issuer %s can be read again", self._name)
            else:
                _log.warning("the keys of the issuer %s cannot be read: %s", self._name, fault)
        self.fault = fault

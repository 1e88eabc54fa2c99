"""Logins that people have begun at an identity provider, in the memory of the process.

Only the browser that began a login can complete it, because its cookie contains the token of the login. A login can be
completed once.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.console.identity_provider import IdentityProvider, LoginAttempt
from gateway.console.sessions import Session

LIFETIME_S: Final = 600.0
"""Seconds within which a person must sign in at the provider."""
MAX_LOGINS: Final = 4096
"""Maximum number of logins, each with at most about 2,500 bytes. The oldest is dropped first."""
MAX_PER_ADDRESS: Final = 20
"""Maximum number of logins of one address, so that one address cannot displace the logins of others."""


@dataclass(frozen=True, slots=True)
class PendingLogin:
    """Login that a person has begun."""

    provider: IdentityProvider
    attempt: LoginAttempt
    place: str
    """Page that the person wanted to open."""
    address: str
    """Address of the browser, as in `LoginLimit`."""
    former: Session | None
    """Session that the browser had when the login began. It ends when the login is completed."""
    began_at: float


class PendingLogins:
    """Pending logins by the digest of their token. *clock* returns monotonic seconds."""

    def __init__(self, *, clock: Callable[[], float], max_logins: int = MAX_LOGINS) -> None:
        self._clock = clock
        self._max_logins = max_logins
        self._logins: dict[bytes, PendingLogin] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._logins)

    def add(
        self,
        token: str,
        provider: IdentityProvider,
        attempt: LoginAttempt,
        *,
        place: str,
        address: str,
        former: Session | None,
    ) -> None:
        """Keep a login that begins now under *token*. O(logins), of which there are few."""
        same = [digest for digest, login in self._logins.items() if login.address == address]
        for digest in same[: max(0, len(same) + 1 - MAX_PER_ADDRESS)]:
            del self._logins[digest]
        while len(self._logins) >= self._max_logins:
            del self._logins[next(iter(self._logins))]
        self._logins[_digest(token)] = PendingLogin(provider, attempt, place, address, former, self._clock())

    def take(self, token: str | None) -> PendingLogin | None:
        """Return the login of *token* and forget it. Return None if it is unknown, was taken before, or is too old."""
        login = None if token is None else self._logins.pop(_digest(token), None)
        return login if login is not None and self._clock() - login.began_at < LIFETIME_S else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()

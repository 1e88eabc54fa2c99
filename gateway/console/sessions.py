"""Sessions of people who are logged in to the console. They are kept in the memory of the process.

A session has a random token of 256 bits, which only the cookie of the browser contains. The process keeps the SHA-256
digest of the token. The session of a person who signed in at an identity provider also ends when the person is revoked
or changed by the provider.
"""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from gateway.api.admin_access import AdminKey
from gateway.console.identity_provider import SignedIn

MAX_SESSIONS: Final = 1000
"""Maximum number of sessions. A login beyond it ends the session that has not been used for the longest time."""
MAX_STREAMS: Final = 6
"""Maximum number of open event streams of one session. Browsers open at most six connections to a host by HTTP/1.1."""
MAX_NOTICES: Final = 8

NoticeKind = Literal["done", "failed"]


@dataclass(eq=False, slots=True)
class Session:
    """Session of one login. Times are monotonic seconds."""

    key: AdminKey
    """Admin key or person of the login, whose role and team apply to the session."""
    csrf: str = field(repr=False)
    """Token that each form of the session's pages contains."""
    created_at: float
    used_at: float
    digest: bytes = field(repr=False)
    ended: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Event that is set when the session ends, so that its event streams close at once."""
    streams: int = 0
    """Number of open event streams."""
    notices: list[tuple[NoticeKind, str]] = field(default_factory=list)
    """Messages about completed actions, which the next page shows once."""
    signed_in: SignedIn | None = None
    """Person who signed in at an identity provider, or None if the session began with an admin key."""

    def notify(self, kind: NoticeKind, text: str) -> None:
        """Keep a message for the next page."""
        del self.notices[: max(0, len(self.notices) + 1 - MAX_NOTICES)]
        self.notices.append((kind, text))

    def take_notices(self) -> list[tuple[NoticeKind, str]]:
        """Return the kept messages and forget them."""
        taken, self.notices = self.notices, []
        return taken


class Sessions:
    """All sessions of the console. *new_token* returns a random token with at least 256 bits."""

    def __init__(
        self,
        *,
        idle_s: float,
        max_s: float,
        clock: Callable[[], float],
        new_token: Callable[[], str],
        max_sessions: int = MAX_SESSIONS,
    ) -> None:
        self._idle_s = idle_s
        self._max_s = max_s
        self._clock = clock
        self._new_token = new_token
        self._max_sessions = max_sessions
        self._sessions: dict[bytes, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, key: AdminKey, signed_in: SignedIn | None = None) -> str:
        """Start a session for *key* and return its token, which no earlier session had."""
        self._end_expired()
        while len(self._sessions) >= self._max_sessions:
            self.end(min(self._sessions.values(), key=lambda session: session.used_at))
        token, now = self._new_token(), self._clock()
        digest = _digest(token)
        self._sessions[digest] = Session(
            key, self._new_token(), created_at=now, used_at=now, digest=digest, signed_in=signed_in
        )
        return token

    def find(self, token: str | None, *, is_use: bool = True) -> Session | None:
        """Return the session of *token*, or None if it is unknown or expired. *is_use* starts its idle time again."""
        session = None if token is None else self._sessions.get(_digest(token))
        if session is None or not self.is_live(session):
            return None
        if is_use:
            session.used_at = self._clock()
        return session

    def is_live(self, session: Session) -> bool:
        """Return whether *session* can still be used. A session that expired or was revoked ends here."""
        now = self._clock()
        holds = session.signed_in is None or session.signed_in.still_holds()
        if holds and now - session.used_at < self._idle_s and now - session.created_at < self._max_s:
            return not session.ended.is_set()
        self.end(session)
        return False

    def end(self, session: Session) -> None:
        """End *session* at once, with all of its event streams."""
        self._sessions.pop(session.digest, None)
        session.ended.set()

    def end_all(self) -> None:
        """End all sessions."""
        for session in list(self._sessions.values()):
            self.end(session)

    def _end_expired(self) -> None:
        for session in list(self._sessions.values()):
            self.is_live(session)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()

"""Server-sent events that keep the live parts of an open page up to date.

The script of the console opens the URL of the page again as an event stream. Each event contains a live part whose HTML
has changed. The stream ends with the session, with the server, or when the browser closes it. It does not count as use
of the session.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, Protocol

import msgspec

from gateway.console.sessions import MAX_STREAMS, Session

LOOK_S: Final = 0.5
"""Seconds after which a stream notices that the session or the server has ended."""
SILENCE_S: Final = 15.0
"""Seconds without an event after which a comment is sent, so that proxies keep the connection open."""
MAX_ALL_STREAMS: Final = 200
"""Maximum number of open event streams of all sessions."""


class Stop(Protocol):
    """Interface of the state of a server stop; see `gateway.server.stop.Stop`."""

    is_requested: bool


class EventStreams:
    """Open event streams of all sessions, which are limited in number."""

    def __init__(self, *, is_live: Callable[[Session], bool], clock: Callable[[], float]) -> None:
        self._is_live = is_live
        self._clock = clock
        self._count = 0

    def has_room(self, session: Session) -> bool:
        """Return whether *session* can open another stream."""
        return session.streams < MAX_STREAMS and self._count < MAX_ALL_STREAMS

    async def stream(
        self,
        session: Session,
        parts: Callable[[], Awaitable[Mapping[str, str]]],
        *,
        interval_s: float,
        stop: Stop | None,
    ) -> AsyncIterator[bytes]:
        """Yield an event for each live part whose HTML has changed. *parts* returns the HTML of all live parts."""
        session.streams += 1
        self._count += 1
        try:
            sent: dict[str, str] = {}
            spoken_at = due_at = self._clock()
            while self._is_live(session) and not (stop is not None and stop.is_requested):
                now = self._clock()
                if now >= due_at:
                    changed = {name: html for name, html in (await parts()).items() if sent.get(name) != html}
                    sent.update(changed)
                    for name, html in changed.items():
                        yield event("part", {"name": name, "html": html})
                    due_at, spoken_at = now + interval_s, now if changed else spoken_at
                if now - spoken_at >= SILENCE_S:
                    yield b": still here\n\n"
                    spoken_at = now
                await _ended(session, min(LOOK_S, interval_s))
            if session.ended.is_set():
                yield event("ended", {})
        finally:
            session.streams -= 1
            self._count -= 1


def event(name: str, data: Mapping[str, str]) -> bytes:
    """Return a server-sent event. JSON has no line breaks outside of escapes, so the data are one line."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))


async def _ended(session: Session, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await session.ended.wait()
    except TimeoutError:
        pass

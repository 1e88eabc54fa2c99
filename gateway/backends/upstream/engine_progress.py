"""Progress of an inference engine, measured by the counter of generated tokens in its metrics.

A stream can be silent while its engine works, because a parser may hold back a tool call or reasoning until it is
complete. The number of running requests does not show this, because it includes stuck requests. The number of generated
tokens does.
"""

import math
from collections.abc import Callable
from weakref import WeakValueDictionary


class EngineProgress:
    """Readings of one engine's counter of generated tokens. Times are monotonic seconds, passed as arguments."""

    def __init__(self, ask: Callable[[], None]) -> None:
        """Create a record of readings. *ask* requests an early metrics reading, which arrives later, or never."""
        self._ask = ask
        self._asked_at = -math.inf
        self._tokens: float | None = None
        self._began_at = -math.inf
        self._read_at = -math.inf
        self._advance = (-math.inf, -math.inf)

    def ask(self, now: float, *, every_s: float) -> None:
        """Request a reading, unless one was requested within *every_s* seconds or the engine has no such counter."""
        if self._tokens is not None and now >= self._asked_at + every_s:
            self._asked_at = now
            self._ask()

    def note(self, tokens: float | None, *, asked_at: float, read_at: float) -> None:
        """Record a counter reading taken between *asked_at* and *read_at*. *tokens* is None if the engine has no
        counter.

        A reading that overlaps the previous one is ignored, because it may be older. A counter that has decreased
        belongs to an engine that has restarted.
        """
        if asked_at < self._read_at:
            return
        if tokens is not None and self._tokens is not None and tokens > self._tokens:
            self._advance = self._began_at, read_at
        self._tokens, self._began_at, self._read_at = tokens, asked_at, read_at

    def generated_at(self, since: float) -> float:
        """Return the last time at which the engine generated tokens, according to two readings requested after *since*.

        Return minus infinity if it was not seen generating.
        """
        began_at, seen_at = self._advance
        return seen_at if began_at >= since else -math.inf


class EnginesProgress:
    """Progress of each engine by URL. It is kept as long as connections to the engine exist."""

    def __init__(self, ask: Callable[[str], None]) -> None:
        """Create a collection. *ask* is called with an engine's URL to request an early metrics reading."""
        self._ask = ask
        self._by_url: WeakValueDictionary[str, EngineProgress] = WeakValueDictionary()

    def of(self, url: str) -> EngineProgress:
        """Return the progress object that all connections to *url* share."""
        progress = self._by_url.get(url)
        if progress is None:
            progress = self._by_url[url] = EngineProgress(lambda: self._ask(url))
        return progress

    def note(self, url: str, tokens: float | None, *, asked_at: float, read_at: float) -> None:
        """Record a reading for *url* (see `EngineProgress.note`). Ignore it if there are no connections to *url*."""
        progress = self._by_url.get(url)
        if progress is not None:
            progress.note(tokens, asked_at=asked_at, read_at=read_at)

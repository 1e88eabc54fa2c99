"""Progress of the engine behind an address, by the counter of generated tokens in its metrics.

A stream can be silent while its engine works: a parser may hold back a tool call or reasoning until it is complete. The
number of running requests does not show that, because it includes those that are stuck; the number of generated tokens
does.
"""

import math
from collections.abc import Callable
from weakref import WeakValueDictionary


class EngineProgress:
    """The readings of one engine's counter. Pure: times are arguments, in monotonic seconds."""

    def __init__(self, ask: Callable[[], None]) -> None:
        """*ask* is called to have the engine read before its turn; the reading comes later, or never."""
        self._ask = ask
        self._asked_at = -math.inf
        self._tokens: float | None = None
        self._began_at = -math.inf
        self._read_at = -math.inf
        self._advance = (-math.inf, -math.inf)

    def ask(self, now: float, *, every_s: float) -> None:
        """Ask for a reading, unless one was asked for within *every_s*, or the engine has no such counter."""
        if self._tokens is not None and now >= self._asked_at + every_s:
            self._asked_at = now
            self._ask()

    def note(self, tokens: float | None, *, asked_at: float, read_at: float) -> None:
        """Record a reading taken between the two times; None: the engine has no such counter.

        A reading that overlaps with the last one is ignored, since it may be the older of the two. A counter that is
        lower than before belongs to an engine that has restarted.
        """
        if asked_at < self._read_at:
            return
        if tokens is not None and self._tokens is not None and tokens > self._tokens:
            self._advance = self._began_at, read_at
        self._tokens, self._began_at, self._read_at = tokens, asked_at, read_at

    def generated_at(self, since: float) -> float:
        """Return when the engine was last seen to generate, by two readings that were both requested after *since*.

        Minus infinity: not seen.
        """
        began_at, seen_at = self._advance
        return seen_at if began_at >= since else -math.inf


class EnginesProgress:
    """Progress of each engine by its address, as long as there are connections to it."""

    def __init__(self, ask: Callable[[str], None]) -> None:
        """*ask* is given the address of an engine that is to be read before its turn."""
        self._ask = ask
        self._by_url: WeakValueDictionary[str, EngineProgress] = WeakValueDictionary()

    def of(self, url: str) -> EngineProgress:
        """Return the progress that all connections to *url* share."""
        progress = self._by_url.get(url)
        if progress is None:
            progress = self._by_url[url] = EngineProgress(lambda: self._ask(url))
        return progress

    def note(self, url: str, tokens: float | None, *, asked_at: float, read_at: float) -> None:
        """Note a reading, see `EngineProgress.note`, unless no connection leads to *url*."""
        progress = self._by_url.get(url)
        if progress is not None:
            progress.note(tokens, asked_at=asked_at, read_at=read_at)

"""Creation of ledger entries at the end of requests."""

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo

from gateway.protocol.timestamp import MILLISECONDS, tenths_of_ms
from gateway.tenancy.ledger.entry import NANO, Entry
from gateway.tenancy.ledger.record import Outcome

LONGEST_NAME = 128
"""Number of characters to keep of a name that a caller chose. OpenAI allows 64 characters for an end user
(``safety_identifier``).
"""


class Recorder:
    """Factory for ledger entries. *wall_clock* returns seconds since 1970, and *zone* is the time zone of the calendar
    days.
    """

    def __init__(self, *, wall_clock: Callable[[], float], zone: tzinfo) -> None:
        self._wall_clock = wall_clock
        self._zone = zone
        self._latest = (-1, "", "")
        """Second that was formatted last, its time as text without milliseconds, and its day. They are one tuple,
        because several threads create entries.
        """

    def entry(
        self,
        *,
        at: float,
        request_id: str,
        team: str,
        project: str | None,
        key: str,
        user: str | None,
        model_asked: str,
        model: str,
        backend: str | None,
        outcome: Outcome,
        status: int,
        prompt_tokens: int,
        cached_tokens: int,
        completion_tokens: int,
        cost_nano: int,
        saved_nano: int,
        fell_back: bool,
        ttft_s: float | None,
        duration_s: float,
    ) -> Entry:
        """Return the ledger entry of a request that ended at the time *at* in seconds since 1970. Money is in
        nano-dollars; see `to_nano`.

        Callers choose *user* and *model_asked*. The first `LONGEST_NAME` characters are kept, and unprintable ones
        become ``?``. Takes 0.5 us.
        """
        time, day = self._time_and_day(at)
        return Entry(
            day=day,
            time=time,
            request_id=request_id,
            team=team,
            project=project,
            key=key,
            user=_printable(user) if user else None,
            model_asked=model if model_asked == model else _printable(model_asked),
            model=model,
            backend=backend,
            outcome=outcome,
            status=status,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            completion_tokens=completion_tokens,
            cost_nano=cost_nano,
            saved_nano=saved_nano,
            fell_back=fell_back,
            ttft_ms=None if ttft_s is None else tenths_of_ms(ttft_s),
            duration_ms=tenths_of_ms(duration_s),
        )

    def now(self) -> float:
        """Return the current time in seconds since 1970."""
        return self._wall_clock()

    def today(self) -> str:
        """Return the current calendar day, in the form ``2026-11-21``."""
        return self._time_and_day(self._wall_clock())[1]

    def _time_and_day(self, at: float) -> tuple[str, str]:
        """Return the time *at* as text, and its calendar day. Only the milliseconds are formatted on every call."""
        second = int(at)
        latest, date, day = self._latest
        if second != latest:
            date = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            day = datetime.fromtimestamp(second, self._zone).strftime("%Y-%m-%d")
            self._latest = (second, date, day)
        return date + MILLISECONDS[int((at - second) * 1000.0)], day


def to_nano(usd: float) -> int:
    """Return *usd*, which must not be negative, in whole nano-dollars. The function is ten times as fast as round()."""
    return int(usd * NANO + 0.5)


def _printable(name: str) -> str:
    if len(name) > LONGEST_NAME:
        name = name[:LONGEST_NAME]
    return name if name.isprintable() else "".join(c if c.isprintable() else "?" for c in name)

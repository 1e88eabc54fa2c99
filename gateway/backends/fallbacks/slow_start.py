"""Slow start of a rate limit: a small fraction after a pause, which doubles in each period of use.

AWS recommends this, so that a failing cluster does not send all of its requests to an idle Bedrock model at once.
"""

import math

FIRST_SHARE = 0.1


class SlowStart:
    """Usable fraction of a rate limit, from `FIRST_SHARE` to 1. Times must not decrease."""

    __slots__ = ("_at", "_doubling_s", "_share")

    def __init__(self, doubling_s: float | None) -> None:
        """Create a slow start that doubles every *doubling_s* seconds. If it is None, the whole rate is always
        usable.
        """
        self._doubling_s = doubling_s
        self._share = FIRST_SHARE
        self._at: float | None = None  # of the last request

    def set_doubling_s(self, doubling_s: float | None) -> None:
        """Change the doubling time to *doubling_s* seconds. None turns the slow start off."""
        self._doubling_s = doubling_s

    def share(self, now: float) -> float:
        """Return the usable fraction. It grows while each doubling period has a request, and falls otherwise."""
        if self._doubling_s is None:
            return 1.0
        if self._at is None:
            return FIRST_SHARE
        doublings = (now - self._at) / self._doubling_s
        if doublings > 1.0:
            doublings = 1.0 - doublings
        return min(1.0, max(FIRST_SHARE, self._share * math.exp2(max(-4.0, doublings))))  # 4: from 1 to below the first

    def asked(self, now: float) -> None:
        """Record that a request needs the rate, whether or not it is allowed."""
        self._share = self.share(now)
        self._at = now

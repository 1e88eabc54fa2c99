"""Slow start of a rate limit: after a pause, only a small fraction is usable, which doubles in each period of use.

AWS recommends this, so that a failing cluster does not send all of its requests to an idle Bedrock model at once.
"""

import math

FIRST_SHARE = 0.1


class SlowStart:
    """Usable fraction of a rate limit, from `FIRST_SHARE` to 1. The times passed to its methods must not decrease."""

    __slots__ = ("_at", "_doubling_s", "_share")

    def __init__(self, doubling_s: float | None) -> None:
        """Create a slow start that doubles the rate every *doubling_s* seconds. If *doubling_s* is None, the whole rate
        is always usable.
        """
        self._doubling_s = doubling_s
        self._share = FIRST_SHARE
        self._at: float | None = None  # of the last request

    def set_doubling_s(self, doubling_s: float | None) -> None:
        """Change the doubling time to *doubling_s* seconds. None disables the slow start."""
        self._doubling_s = doubling_s

    def share(self, now: float) -> float:
        """Return the usable fraction of the rate. It grows while each period has a request, and otherwise falls."""
        if self._doubling_s is None:
            return 1.0
        if self._at is None:
            return FIRST_SHARE
        doublings = (now - self._at) / self._doubling_s
        if doublings > 1.0:
            doublings = 1.0 - doublings
        return min(1.0, max(FIRST_SHARE, self._share * math.exp2(max(-4.0, doublings))))  # 4: from 1 to below the first

    def asked(self, now: float) -> None:
        """Record that a request needs the rate limit, whether or not the request is allowed."""
        self._share = self.share(now)
        self._at = now

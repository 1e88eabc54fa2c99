"""Slow start of a rate: a small share after a pause, which doubles with each period of use.

AWS asks for that: a fleet that fails as a whole must not meet a Bedrock that was idle with all of its requests at once.
"""

import math

FIRST_SHARE = 0.1


class SlowStart:
    """Share between `FIRST_SHARE` and 1. Times do not go back."""

    __slots__ = ("_at", "_doubling_s", "_share")

    def __init__(self, doubling_s: float | None) -> None:
        """*doubling_s* None: no slow start, the share is always 1."""
        self._doubling_s = doubling_s
        self._share = FIRST_SHARE
        self._at: float | None = None  # of the last request

    def set_doubling_s(self, doubling_s: float | None) -> None:
        """Double in *doubling_s* from now on; None: no slow start."""
        self._doubling_s = doubling_s

    def share(self, now: float) -> float:
        """Return the share. It grows while there is a request in each doubling time, and falls otherwise."""
        if self._doubling_s is None:
            return 1.0
        if self._at is None:
            return FIRST_SHARE
        doublings = (now - self._at) / self._doubling_s
        if doublings > 1.0:
            doublings = 1.0 - doublings
        return min(1.0, max(FIRST_SHARE, self._share * math.exp2(max(-4.0, doublings))))  # 4: from 1 to below the first

    def asked(self, now: float) -> None:
        """Note a request for the rate, whether or not there is room."""
        self._share = self.share(now)
        self._at = now

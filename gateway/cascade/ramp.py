"""How much of a rate may be used: little after a pause, twice as much after each while of use, and then all of it.

AWS asks for that: a fleet that fails as a whole must not meet a Bedrock that was idle with all of its requests at once.
"""

import math

FIRST_SHARE = 0.1


class Ramp:
    """A share between `FIRST_SHARE` and 1. Times do not go back."""

    __slots__ = ("_at", "_doubling_s", "_share")

    def __init__(self, doubling_s: float | None) -> None:
        """*doubling_s* None: there is none, the share is always 1."""
        self._doubling_s = doubling_s
        self._share = FIRST_SHARE
        self._at: float | None = None  # when somebody last asked

    def take(self, doubling_s: float | None) -> None:
        """Double in *doubling_s* from now on."""
        self._doubling_s = doubling_s

    def share(self, now: float) -> float:
        """It grows as long as somebody asks at least once in each time that it doubles in; from then on it falls."""
        if self._doubling_s is None:
            return 1.0
        if self._at is None:
            return FIRST_SHARE
        doublings = (now - self._at) / self._doubling_s
        if doublings > 1.0:
            doublings = 1.0 - doublings
        return min(1.0, max(FIRST_SHARE, self._share * math.exp2(max(-4.0, doublings))))  # 4: from 1 to below the first

    def asked(self, now: float) -> None:
        """Somebody wants to use the rate, whether there is room or not."""
        self._share = self.share(now)
        self._at = now

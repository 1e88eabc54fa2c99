"""How many requests may be sent a second time: a share of all, so that retries never multiply what overload brings.

Where a fleet fails as a whole, every request would be tried on every worker, and those that are left would get several
times the traffic that was too much already. A share bounds that whatever the size of the fleet. A floor lets through
what the handful of requests of a quiet hour needs. Envoy's and Finagle's retry budgets are made of the same two.
"""

from routing.window import Window


class RetryBudget:
    """Those of the last *window_s* seconds are at most *floor_per_s* for each second, and *share* of the requests.

    O(1) per call.
    """

    def __init__(self, share: float = 0.5, floor_per_s: float = 10.0, window_s: float = 10.0) -> None:
        self._share = share
        self._floor = floor_per_s * window_s
        self._requests = Window(window_s)
        self._retries = Window(window_s)

    def note(self, now: float) -> None:
        """A request came. To be told once for each, not for its retries."""
        self._requests.note(now)

    def has_room(self, now: float) -> bool:
        """Whether `take` would say yes."""
        return self._retries.count(now) + 1 <= self._floor + self._share * self._requests.count(now)

    def take(self, now: float) -> bool:
        """Whether a request may be sent once more; if so, that counts."""
        if not self.has_room(now):
            return False
        self._retries.note(now)
        return True

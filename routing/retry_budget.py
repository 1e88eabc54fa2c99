"""Retry budget that limits retries to a share of all requests, so that they never multiply an overload.

If a whole fleet fails, every request would otherwise be tried on every worker, and the remaining workers would get
several times the traffic. A share limits retries for a fleet of any size, and a floor still allows retries in a quiet
hour with few requests. Envoy's and Finagle's retry budgets have the same two parts.
"""

from routing.learning.window import Window


class RetryBudget:
    """Retry budget of *floor_per_s* retries per second plus *share* of the requests in the last *window_s* seconds.

    Each call takes constant time.
    """

    def __init__(self, share: float = 0.5, floor_per_s: float = 10.0, window_s: float = 10.0) -> None:
        self._share = share
        self._floor = floor_per_s * window_s
        self._requests = Window(window_s)
        self._retries = Window(window_s)

    def note(self, now: float) -> None:
        """Count a request. Call this method once per request, but not for its retries."""
        self._requests.note(now)

    def has_room(self, now: float) -> bool:
        """Return whether the retry budget would allow a retry now."""
        return self._retries.count(now) + 1 <= self._floor + self._share * self._requests.count(now)

    def spend(self, now: float) -> bool:
        """Return whether the request can be retried, and count the retry if it can."""
        if not self.has_room(now):
            return False
        self._retries.note(now)
        return True

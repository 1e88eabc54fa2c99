"""Slow start for new workers: a worker gets a few requests at first, and more after each answer, as in TCP."""


class WarmUp:
    """Limit on the requests in flight on a new worker. The limit grows from *first* to *last* with each answer and then
    ends.

    A fresh engine must compile, capture graphs and fill its cache. Without this limit, a fleet that sends every cache
    miss to the emptiest worker would overload it.
    """

    def __init__(self, *, first: int = 4, last: int = 32) -> None:
        self._first = first
        self._last = last
        self._window = first

    def admits(self, in_flight: int) -> bool:
        return self._window >= self._last or in_flight < self._window

    def succeeded(self) -> None:
        self._window = min(self._window + 1, self._last)

    def restart(self) -> None:
        self._window = self._first

"""Slow start for new workers: a few requests first, and more with each answer, as in TCP."""


class WarmUp:
    """A limit on the requests in flight that grows from *first* to *last* with each answer, and then ends.

    A fresh engine compiles, captures graphs and fills its cache. A fleet that sends every miss to the emptiest worker
    would overload it.
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

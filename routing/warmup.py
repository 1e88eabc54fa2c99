"""A new worker gets a few requests first, and more with each that it answers, as TCP starts slowly."""


class WarmUp:
    """A window of requests in flight that opens with success.

    From *first* to *last*, then without limit: a fresh engine compiles, captures graphs and fills its cache, and a
    fleet that sends every miss to the emptiest worker would drown it.
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

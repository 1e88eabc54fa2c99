"""Interruption of a request that the gateway sends to itself, such as a line of a batch."""

from collections.abc import Callable


class Interruption:
    """Interrupts one request as if its caller had disconnected: the worker stops, and the request is charged nothing.

    The sender of the request creates the object, and calls `interrupt`. The proxy calls `begin` and `end`.
    """

    __slots__ = ("_cut", "is_done", "yields_in_s")

    def __init__(self, yields_in_s: float) -> None:
        self.yields_in_s = yields_in_s
        """Mean seconds until the request is interrupted if another request needs its worker."""
        self.is_done = False
        """Whether the request was interrupted."""
        self._cut: Callable[[], None] | None = None

    def begin(self, cut: Callable[[], None]) -> None:
        """Allow interruptions from now on. *cut* ends the request."""
        self._cut = cut

    def end(self) -> None:
        """Allow no interruption any more, because the request has ended."""
        self._cut = None

    def interrupt(self) -> None:
        """Interrupt the request if it is with a worker, or waits for one. Otherwise, and if repeated, do nothing."""
        cut, self._cut = self._cut, None
        if cut is not None:
            self.is_done = True
            cut()

"""Stop of the server. A signal requests it, and it takes effect after a delay.

1. After the first signal, `/readyz` returns 503, so that load balancers choose other servers. From then on, every
   answer is the last one of its connection. For ``delay_s`` seconds, new requests are accepted as before, until load
   balancers have noticed.
2. After the delay, the server accepts no new connections. Requests on open connections are still answered.
3. SIGINT skips the delay, because a person sent it. A SIGINT after another signal ends all requests at once.
"""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

from gateway.server.asgi import App, Message, Receive, Send

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
CUT_S = 2.0
"""Seconds in which requests that were canceled after the grace period can still answer and record their usage."""
SCOPE_KEY = "stop"
"""Key of the `Stop` object in the ASGI lifespan state."""


class Stop:
    """State of a server stop. Signals request the stop, and other parts of the program poll this state. The function
    *clock* returns monotonic seconds.
    """

    def __init__(self, *, delay_s: float, clock: Callable[[], float]) -> None:
        self._delay_s = delay_s
        self._clock = clock
        self._until = 0.0
        self.is_requested = False
        """Whether a stop was requested. If so, clients should use other servers."""
        self.is_forced = False
        """Whether the server must stop without waiting for requests."""
        self._on_request: list[Callable[[], object]] = []

    def on_request(self, react: Callable[[], object]) -> None:
        """Call *react* as soon as a stop is requested. It is called in a signal handler, so it must not block."""
        self._on_request.append(react)

    def signalled(self, number: int) -> None:
        """Handle the stop signal *number*. A second SIGTERM has no effect."""
        if number == signal.SIGINT:
            self.is_forced = self.is_requested
            self._until = self._clock()
        elif not self.is_requested:
            self._until = self._clock() + self._delay_s
        if not self.is_requested:
            self.is_requested = True
            for react in self._on_request:
                react()

    @property
    def left_s(self) -> float:
        """Seconds for which new requests are still accepted after a stop was requested."""
        return max(0.0, self._until - self._clock())

    @property
    def is_due(self) -> bool:
        """Whether the server must no longer accept new connections."""
        return self.is_requested and self.left_s == 0.0


def with_stop(app: App, stop: Stop, lifespan: App | None = None) -> App:
    """Return *app*, changed so that its lifespan state contains *stop*. Servers copy this state into every request.

    If *lifespan* is given, it handles the lifespan messages instead of *app*.
    """
    inner = lifespan or app

    async def lifespan_with_stop(scope: Message, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})[SCOPE_KEY] = stop
        await inner(scope, receive, send)

    def either(scope: Message, receive: Receive, send: Send) -> object:
        # No extra coroutine: all requests pass here.
        return (lifespan_with_stop if scope["type"] == "lifespan" else app)(scope, receive, send)

    return either  # type: ignore[return-value]


@contextlib.contextmanager
def handled_by(handle: Callable[[int, Any], object]) -> Iterator[None]:
    """Call *handle* for each stop signal while the context is active, and then restore the former handlers. Call this
    only in the main thread.
    """
    previous = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

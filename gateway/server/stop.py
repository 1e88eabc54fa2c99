"""The stop of a server: requested by a signal, announced at once, and carried out after a delay.

1. After the first signal, `/readyz` returns 503, so that load balancers choose other servers, and every answer is the
   last one of its connection. For ``delay_s``, until load balancers have noticed, requests are accepted as before.
2. Then the server accepts no more connections. Requests on open connections are still answered.
3. SIGINT does not wait, because a person sent it. If a stop was requested before, SIGINT ends everything at once.
"""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

from gateway.server.asgi import App, Message, Receive, Send

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
CUT_S = 2.0
"""Time for requests that are cut after the grace period to answer their callers and to settle their usage."""
SCOPE_KEY = "stop"
"""Key of the `Stop` in the state that the lifespan shares with requests."""


class Stop:
    """The stop that signals have requested; readers poll it. *clock* returns monotonic seconds."""

    def __init__(self, *, delay_s: float, clock: Callable[[], float]) -> None:
        self._delay_s = delay_s
        self._clock = clock
        self._until = 0.0
        self.is_requested = False
        """Clients should use other servers from now on."""
        self.is_forced = False
        """The server must not wait for anything."""

    def signalled(self, number: int) -> None:
        """Handle a stop signal; a second SIGTERM changes nothing."""
        if number == signal.SIGINT:
            self.is_forced = self.is_requested
            self._until = self._clock()
        elif not self.is_requested:
            self._until = self._clock() + self._delay_s
        self.is_requested = True

    @property
    def left_s(self) -> float:
        """Seconds for which requests are still accepted after the stop was requested."""
        return max(0.0, self._until - self._clock())

    @property
    def is_due(self) -> bool:
        """Whether to accept no more connections."""
        return self.is_requested and self.left_s == 0.0


def with_stop(app: App, stop: Stop, lifespan: App | None = None) -> App:
    """Return *app* with *stop* in the state of its lifespan, which servers copy into every request.

    *lifespan* serves the lifespan instead of *app*.
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
    """Call *handle* for each stop signal inside the block; then restore the former handlers. Main thread only."""
    previous = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

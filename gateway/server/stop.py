"""How a server comes to its end: asked by a signal, it tells so at once, and takes requests for a while yet.

1. From the first signal on `/readyz` says 503, so that load balancers send their requests elsewhere, and every answer
   is the last on its connection. Until they have noticed, ``delay_s`` later, requests are taken as before.
2. Then the server takes no connections more. What is on the way on those that are open is still answered.
3. SIGINT does not wait: somebody sits there. When a stop has been asked for already, it ends everything at once.
"""

import signal
from collections.abc import Callable

from gateway.server.asgi import App, Message, Receive, Send

CUT_S = 2.0
"""For requests that are cut after the grace: to tell their callers, and to settle what they used."""
SCOPE_KEY = "stop"
"""Of the state that the lifespan shares with requests: there applications find the `Stop`."""


class Stop:
    """What signals have asked for. *clock* gives seconds; nothing is told to anybody, it is looked at."""

    def __init__(self, *, delay_s: float, clock: Callable[[], float]) -> None:
        self._delay_s = delay_s
        self._clock = clock
        self._until = 0.0
        self.is_asked = False
        """Requests should go elsewhere from now on."""
        self.is_forced = False
        """Nothing is to be waited for."""

    def signalled(self, number: int) -> None:
        """A stop signal came; more of SIGTERM change nothing."""
        if number == signal.SIGINT:
            self.is_forced = self.is_asked
            self._until = self._clock()
        elif not self.is_asked:
            self._until = self._clock() + self._delay_s
        self.is_asked = True

    @property
    def left_s(self) -> float:
        """Seconds for which requests are still taken, once it is asked."""
        return max(0.0, self._until - self._clock())

    @property
    def is_due(self) -> bool:
        """No more connections are to be taken."""
        return self.is_asked and self.left_s == 0.0


def telling(app: App, stop: Stop, lifespan: App | None = None) -> App:
    """*app*, which finds *stop* in the state of every request that comes with the state of its lifespan.

    *lifespan* serves the lifespan in place of *app*.
    """
    begun = lifespan or app

    async def app_told(scope: Message, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})[SCOPE_KEY] = stop
        await begun(scope, receive, send)

    def either(scope: Message, receive: Receive, send: Send) -> object:
        # No coroutine of its own: all requests come this way.
        return (app_told if scope["type"] == "lifespan" else app)(scope, receive, send)

    return either  # type: ignore[return-value]

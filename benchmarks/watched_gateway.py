"""`python -m benchmarks.watched_gateway --config FILE`: run the gateway with a watch over its event loop.

A callback that runs in every turn of the loop measures how long each turn takes. ``GET /turns`` returns the
measurements since the last call, as JSON of `Turns`. All other requests go to the gateway.

Because the loop never sleeps, this program is for measuring turns, not throughput.
"""

import argparse
import asyncio
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gateway.app.application import create_app
from gateway.app.config_source import ConfigSource
from gateway.app.serving import serve
from gateway.server.asgi import App, Message, Receive, Send
from gateway.settings import Settings, environment

PATH = "/turns"
LONG_MS = 2.0
"""Maximum milliseconds that a request or a feed is allowed to block the loop."""


@dataclass(slots=True)
class Turns:
    """Turns of the loop in one period, in milliseconds."""

    turns: int = 0
    watched_s: float = 0.0
    longest_ms: float = 0.0
    """Longest turn by the clock, including other load of the machine and waiting for Python's lock."""
    longest_cpu_ms: float = 0.0
    """Longest turn by the processor time of the loop's thread."""
    long: int = 0
    """Number of turns of at least `LONG_MS` by the clock."""
    long_cpu: int = 0
    collections: int = 0
    """Number of garbage collections, and the longest of them."""
    longest_collection_ms: float = 0.0


class Watch:
    """Watch over an event loop. Both clocks return nanoseconds. *cpu* is the processor time of the thread."""

    def __init__(
        self,
        *,
        clock: Callable[[], int] = time.perf_counter_ns,
        cpu: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        self._clock = clock
        self._cpu = cpu
        self._seen = Turns()
        self._began = self._last = clock()
        self._last_cpu = cpu()
        self._collection_began = 0

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the watch. Must be called once, in the thread of *loop*."""
        gc.callbacks.append(self.collected)
        self.take()
        self._beat(loop)

    def take(self) -> Turns:
        """Return the turns since the last call, and continue to watch."""
        now, seen = self._clock(), self._seen
        seen.watched_s = (now - self._began) / 1e9
        self._seen, self._began = Turns(), now
        self._last, self._last_cpu = now, self._cpu()
        return seen

    def turned(self) -> None:
        """Record the end of a turn of the loop."""
        now, cpu = self._clock(), self._cpu()
        seen = self._seen
        took_ms, took_cpu_ms = (now - self._last) / 1e6, (cpu - self._last_cpu) / 1e6
        self._last, self._last_cpu = now, cpu
        seen.turns += 1
        seen.longest_ms = max(seen.longest_ms, took_ms)
        seen.longest_cpu_ms = max(seen.longest_cpu_ms, took_cpu_ms)
        seen.long += took_ms >= LONG_MS
        seen.long_cpu += took_cpu_ms >= LONG_MS

    def collected(self, phase: str, _: dict[str, int]) -> None:
        """Record the start or the end of a garbage collection. This is one of `gc.callbacks`."""
        if phase == "start":
            self._collection_began = self._clock()
            return
        took_ms = (self._clock() - self._collection_began) / 1e6
        self._seen.collections += 1
        self._seen.longest_collection_ms = max(self._seen.longest_collection_ms, took_ms)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self.turned()
        loop.call_soon(self._beat, loop)


def watched(app: App, watch: Watch) -> App:
    """Return *app* with a watch over its event loop from the first request on."""
    is_watching = False

    async def serving(scope: Message, receive: Receive, send: Send) -> None:
        nonlocal is_watching
        if scope["type"] == "http" and scope["path"] == PATH:
            if not is_watching:
                is_watching = True
                watch.begin(asyncio.get_running_loop())
            body = msgspec.json.encode(watch.take())
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        else:
            await app(scope, receive, send)

    return serving


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watched_gateway", description=__doc__.split("\n")[0])
    parser.add_argument("--config", type=Path, required=True)
    configuration = ConfigSource(parser.parse_args().config, environment())
    settings = configuration.load()

    def create(given: Settings) -> App:
        return watched(create_app(given, configuration=configuration), Watch())

    serve(settings, create_app=create)


if __name__ == "__main__":
    main()

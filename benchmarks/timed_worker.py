"""Stub worker whose events contain their sending time, so that clients can measure delays.

All processes of a machine share one monotonic clock (Linux: CLOCK_MONOTONIC). Each stream gets one event per interval,
at times that are spread evenly over the interval. Other requests get the stub worker's answers.
"""

import argparse
import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import cast

import uvloop

from benchmarks.stub_worker import CONTENT_LENGTH, STREAM, Script, write_script

TURN_S = 0.002  # the turns of streams are this far apart: few writes at a time, so that none waits for the others
BACKLOG = 4096  # more is cut to this by Linux as it comes (net.core.somaxconn)
SENT_AT = re.compile(rb'"content":" t(\d+)"').finditer
"""Pattern that finds the sending times of events, in nanoseconds."""
DONE = b"data: [DONE]\n\n"

_EVENT = (
    b'data: {"id":"chatcmpl-timed","object":"chat.completion.chunk","created":1760000000,"model":"%b","choices":'
    b'[{"index":0,"delta":{"content":" t%d"},"logprobs":null,"finish_reason":null}]}\n\n'
)


class Wheel:
    """Timer that repeats the turns of one interval. *write* is called at each turn until it reports that the stream has
    ended.

    *clock* gives nanoseconds.
    """

    def __init__(self, *, turns: int) -> None:
        self._turns: list[list[Callable[[], bool]]] = [[] for _ in range(turns)]
        self._entered = 0

    def enter(self, write: Callable[[], bool]) -> None:
        """Call *write* once per interval from its next turn on, until it returns that the stream has ended."""
        # An odd step through the turns: streams that begin together do not come together.
        self._entered += 1
        self._turns[self._entered * 191 % len(self._turns)].append(write)

    def turn(self, number: int) -> None:
        """Return turn *number* of an endless sequence."""
        place = number % len(self._turns)
        self._turns[place] = [write for write in self._turns[place] if not write()]

    async def run(self, *, turn_s: float) -> None:
        """Run turns until cancelled. Late turns are made up for."""
        loop = asyncio.get_running_loop()
        began, number = loop.time(), 0
        while True:
            await asyncio.sleep(began + number * turn_s - loop.time())
            while began + number * turn_s <= loop.time():
                self.turn(number)
                number += 1


class Connection(asyncio.Protocol):
    """Keep-alive connection with one request at a time."""

    def __init__(self, model: str, script: Script, wheel: Wheel, *, events: int) -> None:
        self._model = model.encode()
        self._script = script
        self._wheel = wheel
        self._events = events
        self._pieces: deque[bytes] = deque()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports only look like asyncio's

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        whole = b"".join(self._pieces)
        head_end = whole.find(b"\r\n\r\n")
        if head_end < 0:
            return
        length = CONTENT_LENGTH.search(whole, 0, head_end + 2)
        if len(whole) >= head_end + 4 + (int(length[1]) if length else 0):
            self._pieces.clear()
            self._answer(whole, head_end)

    def _answer(self, request: bytes, head_end: int) -> None:
        if request.startswith(b"GET "):
            path = request[4 : request.find(b" ", 4)]
            self._transport.write(self._script.pages.get(path, self._script.not_found))
        elif STREAM.search(request, head_end):
            self._transport.write(self._script.stream_head)
            stream = self._stream()
            self._wheel.enter(lambda: next(stream))
        else:
            self._transport.write(self._script.chat)

    def _stream(self) -> Iterator[bool]:
        """Write one event per step. Return True when there are no more events."""
        for _ in range(self._events):
            if self._transport.is_closing():
                break
            event = _EVENT % (self._model, time.perf_counter_ns())
            self._transport.write(b"%x\r\n%b\r\n" % (len(event), event))
            yield False
        if not self._transport.is_closing():
            self._transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(DONE), DONE))
        yield True


@asynccontextmanager
async def serving(*, events: int, interval_s: float = 1.0, model: str = "tiny", port: int = 0) -> AsyncIterator[str]:
    """Yield the URL of a worker that streams *events* events, one per interval. Port 0 is any free port."""
    loop = asyncio.get_running_loop()
    wheel = Wheel(turns=max(1, round(interval_s / TURN_S)))
    script = write_script(model)

    def connection() -> Connection:
        return Connection(model, script, wheel, events=events)

    async with (
        asyncio.TaskGroup() as tasks,
        await loop.create_server(connection, "127.0.0.1", port, backlog=BACKLOG) as server,
    ):
        turning = tasks.create_task(wheel.run(turn_s=TURN_S))
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        turning.cancel()


async def _serve_for_ever(arguments: argparse.Namespace) -> None:
    async with serving(events=arguments.events, interval_s=arguments.interval_s, port=arguments.port) as url:
        print(f"ready: {url}", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.timed_worker", description=__doc__.split("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="0 (the default) is any free one; the ready line names it")
    parser.add_argument("--events", type=int, default=30, help="of a stream")
    parser.add_argument("--interval-s", type=float, default=1.0, help="between two events of a stream")
    uvloop.run(_serve_for_ever(parser.parse_args()))


if __name__ == "__main__":
    main()

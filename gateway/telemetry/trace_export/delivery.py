"""Delivery of traces to one destination, from a separate thread.

1. Queuing a trace never waits. If the queue is full, the trace is dropped and counted.
2. A slow or unavailable destination does not delay traces to other destinations.
3. The thread pauses between two traces, because encoding the spans of a trace holds Python's lock for a fraction of a
   millisecond.
"""

import logging
import threading
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any, Literal, Protocol

import msgspec

from gateway.proxy.exchange import Exchange
from gateway.proxy.tracing.trace import Trace

_log = logging.getLogger(__name__)

MOST_WAITING = 4096
"""Maximum number of traces in the queue. A trace without prompt and answer takes about 10 kB."""
MAX_CONTENT_BYTES = 64 * 2**20
"""Maximum total size in bytes of prompts and answers in the queue. Traces above this limit are dropped."""
BATCH = 64
"""Number of traces per request. At about ten spans each, a batch matches the 512 spans of OpenTelemetry's own
processor.
"""
COLLECT_S = 1.0
"""Number of seconds for which the first trace of a batch waits for further traces."""
GIVE_WAY_S = 0.001

Outcome = Literal["sent", "dropped", "failed"]


class CompletedTrace(msgspec.Struct, frozen=True):
    """Completed request with its trace."""

    exchange: Exchange
    trace: Trace
    at: float
    """Time when the request ended, in monotonic seconds."""


class Encodes(Protocol):
    """Encoder for batches of traces for a destination."""

    def spans(self, ended: CompletedTrace) -> list[Any]: ...

    def message(self, spans: Iterable[Any]) -> bytes: ...


class Sends(Protocol):
    """Sender of encoded batches of traces. Only one thread uses it."""

    def __call__(self, message: bytes, stop: threading.Event) -> str | None:
        """Send *message*. Return None on success, or the reason for the failure. Once *stop* is set, return quickly."""
        ...

    def close(self) -> None: ...


class Delivery:
    """Trace queue of one destination, and the thread that sends the queued traces."""

    def __init__(
        self,
        name: str,
        encoder: Encodes,
        sends: Sends,
        *,
        most_waiting: int = MOST_WAITING,
        max_content_bytes: int = MAX_CONTENT_BYTES,
        collect_s: float = COLLECT_S,
    ) -> None:
        """Create a queue for the destination *name*, which metrics and logs show. The thread starts with the first
        trace.
        """
        self.name = name
        self._encoder = encoder
        self._sends = sends
        self._most_waiting = most_waiting
        self._max_content_bytes = max_content_bytes
        self._offered_bytes = 0  # of all there ever were: written by who offers
        self._taken_bytes = 0  # written by the thread
        self._collect_s = collect_s
        self._waiting: deque[CompletedTrace] = deque()
        self._is_there = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_failing = False
        self.counts: Counter[Outcome] = Counter()
        """Number of traces by outcome."""

    def offer(self, ended: CompletedTrace) -> None:
        """Add a trace to the queue, or drop it if the queue is full. Never waits. Always call this from the same
        thread.
        """
        if len(self._waiting) >= self._most_waiting or self._stop.is_set():
            self.counts["dropped"] += 1
            return
        size = _content_bytes(ended)
        if size and self._offered_bytes - self._taken_bytes + size > self._max_content_bytes:
            self.counts["dropped"] += 1
            return
        self._offered_bytes += size
        self._waiting.append(ended)
        if not self._is_there.is_set():
            self._is_there.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"traces of {self.name}", daemon=True)
            self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Send queued traces for at most *timeout_s* seconds, and drop the remaining traces. This blocks the caller."""
        self._stop.set()
        self._is_there.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            self._is_there.wait()
            self._stop.wait(self._collect_s)
            self._is_there.clear()
            while self._waiting:
                self._deliver()
            if self._stop.is_set() and not self._waiting:
                self._sends.close()
                return

    def _deliver(self) -> None:
        """Send one batch of queued traces."""
        spans: list[Any] = []
        count = 0
        while self._waiting and count < BATCH:
            ended = self._waiting.popleft()
            self._taken_bytes += _content_bytes(ended)
            try:
                spans += self._encoder.spans(ended)
            except Exception:  # noqa: BLE001  # one trace that cannot be encoded must not lose the others
                self.counts["failed"] += 1
                _log.exception(
                    "The trace of request %s could not be encoded", ended.exchange.request_id.decode("ascii")
                )
            else:
                count += 1
            self._stop.wait(GIVE_WAY_S)
        if not count:
            return
        why = self._sends(self._encoder.message(spans), self._stop)
        self.counts["sent" if why is None else "failed"] += count
        if why is not None and not self._is_failing:
            _log.warning("Traces could not be delivered to %s: %s", self.name, why)
        self._is_failing = why is not None


def _content_bytes(ended: CompletedTrace) -> int:
    content = ended.trace.content
    return 0 if content is None else content.size_bytes

"""Completed requests, handed to metrics and logs in batches.

Counting and logging one request at a time would take a tenth of the gateway's time. A batch takes less, because the
same code runs many times in a row and one system call writes all lines.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from gateway.proxy.exchange import Exchange

SETTLE_S = 0.05
"""Longest delay of log lines and counts."""


class CompletedRequest:
    __slots__ = ("at", "exchange")

    def __init__(self, exchange: Exchange, at: float) -> None:
        """Take the end of *exchange*, in monotonic seconds, as *at*."""
        self.exchange = exchange
        self.at = at


class Observer(Protocol):
    """Receives completed requests: the metrics, the log, the traces."""

    def observe(self, completed: list[CompletedRequest]) -> None:
        """Process the requests that were completed since the last call, in their order."""
        ...


class CompletedRequests:
    """Hands each completed request to every observer, once."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers
        self._ended: list[CompletedRequest] = []

    def add(self, exchange: Exchange, now: float) -> None:
        """Add *exchange*, which ended at *now*, to the next batch. Call it on the running event loop."""
        if not self._ended:
            asyncio.get_running_loop().call_later(SETTLE_S, self.settle)
        self._ended.append(CompletedRequest(exchange, now))

    def settle(self) -> None:
        """Hand over the batch now, before a scrape of the metrics or at the end of the process."""
        ended, self._ended = self._ended, []
        if ended:
            for observer in self._observers:
                observer.observe(ended)

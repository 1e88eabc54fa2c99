"""The lane of batches: how many lines may be in flight, and when a line may start.

A line starts only while no request waits for a worker of its model, and while fewer than N lines per ready worker are
in flight. In the queue of the model, lines have a priority class below all others.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.batch.counters import BatchCounters
from gateway.models.model import Model
from gateway.models.registry import Models

LOOK_S: Final = 0.02
"""Seconds between two checks whether a line may start."""


class Lane:
    """Gate through which the lines of all batches pass. *per_worker* is N."""

    def __init__(
        self,
        models: Models,
        *,
        per_worker: int,
        counters: BatchCounters | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._models = models
        self._per_worker = per_worker
        self._sleep = sleep
        self._turns: dict[str, asyncio.Lock] = {}
        """Turn of the line that may start next, by configured model: only this line checks the gate."""
        self._in_flight = (counters or BatchCounters()).in_flight

    @property
    def in_flight(self) -> int:
        """Number of lines in flight, of all models together."""
        return sum(self._in_flight.values())

    @property
    def slots(self) -> int:
        """Number of lines that all ready workers together may have in flight."""
        return sum(self._limit(model) for model in self._models)

    async def enter(self, asked: str) -> str:
        """Wait until a line for the model *asked* may start, and return the place that it takes. Lines wait in turn.

        Call `leave` with the place when the line has ended.
        """
        name = self._models.configured_name(asked)
        if not self._gated(name):
            name = ""  # an unknown model: the request is refused, and needs no worker
        async with self._turns.setdefault(name, asyncio.Lock()):
            while not self._may_start(name):
                await self._sleep(LOOK_S)
            self._in_flight[name] += 1
        return name

    def leave(self, place: str) -> None:
        """Give back a place that `enter` returned."""
        self._in_flight[place] -= 1

    def _may_start(self, name: str) -> bool:
        models = self._gated(name)
        limit = sum(map(self._limit, models)) if models else 1
        return self._in_flight[name] < limit and not any(model.dispatch_queue.waiting for model in models)

    def _gated(self, name: str) -> list[Model]:
        """Return the models that can answer a line for *name*. A route can choose any model."""
        model = self._models.get(name)
        if model is not None:
            return [model]
        return [] if self._models.route(name) is None else list(self._models)

    def _limit(self, model: Model) -> int:
        """Return how many lines may be in flight. Without a ready worker, one line tries fallbacks."""
        return max(1, self._per_worker * sum(1 for worker in model.fleet if worker.is_ready))

"""Observer of completed requests that learns how caches are used: hot prefixes, cache hits and repeated computation."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from cache_index import WorkerId
from gateway.models.registry import Models
from gateway.proxy.completed_requests import CompletedRequest
from gateway.telemetry.caches.hit_history import HitHistory
from gateway.telemetry.caches.hot_prefixes import HotPrefixes
from gateway.telemetry.caches.past_blocks import PastBlocks
from gateway.telemetry.caches.prefix_words import PrefixWords
from gateway.telemetry.caches.use_times import UseTimes
from gateway.workers.kv_events.counters import StreamCounters

MAX_PER_BATCH: Final = 8
"""Maximum number of requests to examine in a batch of completed requests. Beyond, they are evenly spaced samples."""
MAX_PER_S: Final = 160.0
"""Maximum mean number of requests to examine per second. It bounds the cost to a few milliseconds per second."""
MINUTE_S = 60.0
MIN_RECOMPUTED_TOKENS: Final = 32.0
"""Number of repeatedly computed tokens of a prompt below which they count as none, because engines cache whole blocks
only and the positions of tokens in the text are estimated.
"""


class Streams(Protocol):
    """Event streams that the gateway follows (see `gateway.workers.event_subscriptions.EventSubscriptions`)."""

    def counters(self) -> Mapping[WorkerId, StreamCounters]: ...


class UsedIndex(Protocol):
    """Index of predicted cache contents that counts its uses (see `cache_index.CacheIndex`)."""

    @property
    def uses(self) -> int: ...


class CacheActivity:
    """Use of the caches of *models*, learned from completed requests. It keeps no text, except the first words of
    prefixes in *words* if that is given.

    Memory: 4 MiB for computed blocks, 9 kB for each worker, usually less than 5 MB for hot prefixes, and 1 MiB for
    their words.
    """

    def __init__(
        self,
        models: Models,
        streams: Streams,
        index: UsedIndex,
        *,
        block_bytes: int,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        words: PrefixWords | None = None,
    ) -> None:
        self.prefixes = HotPrefixes(block_bytes=block_bytes)
        self.words = words
        self.history = HitHistory()
        self.use_times = UseTimes()
        self.use_times.note(index.uses, clock())
        self._models = models
        self._streams = streams
        self._index = index
        self._block_bytes = block_bytes
        self._past = PastBlocks()
        self._room = float(MAX_PER_BATCH)
        """Number of requests that may be examined now. It grows by `MAX_PER_S` up to `MAX_PER_BATCH`."""
        self._observed_at = clock()
        self._unexamined = 0
        """Number of requests for which the next examined ones stand."""
        self._clock = clock
        self._wall_clock = wall_clock

    def observe(self, completed: list[CompletedRequest]) -> None:
        """Learn from *completed*, about 15 microseconds for each of at most `MAX_PER_BATCH` requests."""
        now = self._clock()
        self._room = min(MAX_PER_BATCH, self._room + (now - self._observed_at) * MAX_PER_S)
        self._observed_at = now
        self._unexamined += len(completed)
        if self._room >= 1.0:
            sample = completed[:: -(-len(completed) // int(self._room))]
            stands_for = self._unexamined // len(sample)
            self._unexamined = 0
            self._room -= len(sample)
            for ended in sample:
                self._examine(ended, stands_for)
        self.use_times.note(self._index.uses, now)
        if self.words is not None:
            self._learn_words(self.words, completed)

    def forget_prefixes(self) -> None:
        """Forget all prefixes and blocks, because the key of their hashes has changed. The history stays."""
        self.prefixes.clear()
        if self.words is not None:
            self.words.clear()
        self._past = PastBlocks()

    async def run(self) -> None:
        """End a minute of the history every minute until canceled."""
        while True:
            await asyncio.sleep(MINUTE_S)
            self.end_minute()

    def end_minute(self) -> None:
        """End the current minute of all workers. O(workers), about 5 microseconds each."""
        workers = [(model.name, worker.id) for model in self._models for worker in model.fleet]
        self.history.end_minute(self._wall_clock(), workers, self._streams.counters())

    def _learn_words(self, words: PrefixWords, completed: list[CompletedRequest]) -> None:
        """Learn from all requests, because one request of a team without recorded prompts hides words. About 2
        microseconds for each request.
        """
        for ended in completed:
            exchange = ended.exchange
            if exchange.request is not None:
                content = None if exchange.trace is None else exchange.trace.content
                words.learn(exchange.request.prefix, exchange.team, b"" if content is None else content.beginning)

    def _examine(self, ended: CompletedRequest, stands_for: int) -> None:
        """Learn from one request, which stands for *stands_for* requests."""
        exchange = ended.exchange
        request, model, worker = exchange.request, exchange.model, exchange.backend
        if request is None or model is None or exchange.strategy is None or not request.writes_cache:
            return
        if exchange.first_byte is None and exchange.error is not None:
            return
        self.prefixes.add(request, model, exchange.team or "", ended.at, stands_for=stands_for)
        if worker is None or exchange.served_by != "worker" or exchange.prefill == "remote":
            return
        computed_before = self._past.learn(WorkerId(worker), request.prefix.hashes)
        usage = exchange.usage
        if usage is None or usage.cached_tokens is None or not usage.prompt_tokens or not request.reads_cache:
            return
        prompt, reported = float(usage.prompt_tokens), float(usage.cached_tokens)
        known = prompt * computed_before * self._block_bytes / max(1, request.prompt_bytes)
        recomputed = min(known, prompt) - reported
        self.history.current(model, worker).add(
            prompt=prompt,
            predicted=min(exchange.hit_tokens, prompt),
            reported=reported,
            recomputed=recomputed if recomputed >= MIN_RECOMPUTED_TOKENS else 0.0,
        )

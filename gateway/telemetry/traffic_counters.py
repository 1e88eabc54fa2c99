"""Recent traffic of each model and worker, for a diagnosis of uneven load, short prompts and buffered streams."""

from collections import deque

from gateway.proxy.completed_requests import CompletedRequest
from gateway.proxy.exchange import Exchange

RECENT_REQUESTS = 1000
RECENT_STREAMS = 50
JUDGED_EVENTS = 16
"""Number of events from which the pace of a stream is judged. A tool call that a parser holds back has few events."""
JUDGED_S = 0.1
"""Duration of the shortest stream that is judged, in seconds. Test engines can generate all tokens in milliseconds."""
GAP_S = 0.0003
"""Seconds per event that no engine reaches for a single stream, which corresponds to 3,000 tokens per second."""


class WorkerTraffic:
    """Traffic counters for one worker."""

    def __init__(self) -> None:
        self.requests = 0
        self.at_once: deque[bool] = deque(maxlen=RECENT_STREAMS)
        """Whether each recent stream arrived all at once after a wait."""


class ModelTraffic:
    """Traffic counters for the requests of one model for which a worker was chosen."""

    def __init__(self) -> None:
        self.short: deque[bool] = deque(maxlen=RECENT_REQUESTS)
        """Whether each recent request has a prompt that fills no block."""
        self.prompt_tokens = 0
        self.cached_tokens = 0
        """Number of cached tokens that engines reported. *prompt_tokens* counts the same requests."""
        self.workers: dict[str, WorkerTraffic] = {}


class TrafficCounters:
    """Observer of completed requests that counts the traffic of models and workers."""

    def __init__(self) -> None:
        self._models: dict[str, ModelTraffic] = {}

    def of(self, model: str) -> ModelTraffic:
        """Return the traffic counters of *model*, which is the configured name."""
        return self._models.get(model) or ModelTraffic()

    def observe(self, completed: list[CompletedRequest]) -> None:
        """Count the requests in *completed*. O(requests), about a microsecond each."""
        for ending in completed:
            exchange = ending.exchange
            if exchange.model is not None and exchange.strategy is not None:
                self._count(exchange.model, exchange, ending.at)

    def _count(self, name: str, exchange: Exchange, at: float) -> None:
        model = self._models.get(name)
        if model is None:
            model = self._models[name] = ModelTraffic()
        model.short.append(exchange.prompt_blocks == 0)
        usage = exchange.usage
        if usage is not None and usage.cached_tokens is not None:
            model.prompt_tokens += usage.prompt_tokens
            model.cached_tokens += usage.cached_tokens
        if exchange.backend is None or exchange.served_by != "worker":
            return
        worker = model.workers.get(exchange.backend)
        if worker is None:
            worker = model.workers[exchange.backend] = WorkerTraffic()
        worker.requests += 1
        if exchange.error is None and exchange.streams:
            is_at_once = came_at_once(exchange, at)
            if is_at_once is not None:
                worker.at_once.append(is_at_once)


def came_at_once(exchange: Exchange, at: float) -> bool | None:
    """Return whether the stream of *exchange*, which ended at *at*, arrived all at once, or None if it is too short."""
    sent_at, first_byte = exchange.sent_at, exchange.first_byte
    if sent_at is None or first_byte is None or exchange.continued:
        return None
    if exchange.streamed_events < JUDGED_EVENTS or at - sent_at < JUDGED_S:
        return None
    return at - first_byte < GAP_S * (exchange.streamed_events - 1)

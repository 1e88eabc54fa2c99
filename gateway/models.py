"""The models that are served, each with its workers, its strategy and its fallback."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cache_index import CacheIndex, Hasher, WorkerId
from gateway.backends.backend import Backend, WorkerBackend
from gateway.body import Completion
from gateway.errors import UnknownModel
from gateway.model_names import ModelNames
from gateway.turnstile import Turnstile
from routing.fleet import Fleet
from routing.request import Request


@dataclass(frozen=True, slots=True)
class Reading:
    """One worker's gauges."""

    worker: str
    values: Mapping[str, float]


class Model:
    """One model: everything that a request for it needs."""

    def __init__(
        self,
        name: str,
        *,
        upstream_name: str,
        strategy: str,
        session_header: bytes,
        hasher: Hasher,
        index: CacheIndex,
        fleet: Fleet,
        turnstile: Turnstile,
        workers: Mapping[WorkerId, WorkerBackend],
        fallback: Backend | None = None,
    ) -> None:
        self.name = name
        self.upstream_name = upstream_name
        self.strategy = strategy
        self.session_header = session_header
        self.fleet = fleet
        self.turnstile = turnstile
        self.workers = workers
        self.fallback = fallback
        self.in_flight = 0
        self._hasher = hasher
        self._plain_scope = upstream_name.encode() + b"\0"
        self._index = index

    def request(self, completion: Completion, session: str | None) -> Request:
        """What routing is to know of *completion*."""
        prompt = completion.prompt
        fleet = self.fleet
        return Request(
            prefix=self._hasher.prefix(prompt, self._scope(completion)),
            prompt_bytes=len(prompt),
            prompt_tokens=len(prompt) / fleet.bytes_per_token.ratio,
            output_tokens=fleet.output_length.expected(completion.max_tokens),
            session=session or completion.session,
            streams=completion.streams,
            reads_cache=completion.reads_cache,
        )

    def why_not_ready(self) -> str | None:
        """None if somebody could answer a request."""
        if self.fallback is not None or any(worker.is_up for worker in self.fleet):
            return None
        return f"none of {len(self.workers)} workers is up"

    def went_down(self, worker: WorkerId) -> None:
        """Let the requests that *worker* has not begun to answer go elsewhere, if there is an elsewhere.

        An engine that hangs, or a node that lost its power, closes no connection: without this they would wait for
        their timeout. What is being answered stays: an engine too busy for a health check may still be at it.
        """
        if self.why_not_ready() is None:
            self.workers[worker].abandon_unanswered()

    def readings(self, now: float) -> Iterator[Reading]:
        """Gauges of every worker at *now*."""
        for state in self.fleet:
            load = state.load(now)
            yield Reading(
                state.id,
                {
                    "up": float(state.is_up),
                    "breaker_open": float(state.breaker.is_open),
                    "in_flight": float(load.in_flight),
                    "backlog_seconds": load.backlog_s,
                    "prefill_tokens_per_second": state.prefill_tokens_per_s,
                    "index_blocks": float(self._index.held(state.id)),
                    "connections": float(self.workers[state.id].connections_open),
                },
            )

    async def aclose(self) -> None:
        """Close the connections to the workers."""
        for worker in self.workers.values():
            await worker.aclose()

    def _scope(self, completion: Completion) -> bytes:
        """Prompts share a cache only within it. An adapter is a model of its own here, as it is for vLLM's clients."""
        salt = completion.cache_salt
        return self._plain_scope + salt.encode() if salt else self._plain_scope


class Models:
    """The registry: every configured model, found by name, alias or pattern."""

    def __init__(self, models: Mapping[str, Model], names: ModelNames) -> None:
        self._models = models
        self._names = names

    def __iter__(self) -> Iterator[Model]:
        return iter(self._models.values())

    def ids(self) -> list[str]:
        """Names and exact aliases under which clients may ask."""
        return self._names.exact

    def find(self, name: str) -> Model:
        """The model that answers for *name*.

        Raises:
            UnknownModel: none does.
        """
        known = self._names.resolve(name)
        if known is None:
            raise UnknownModel(f"The model {name[:100]!r} does not exist or is not served here", param="model")
        return self._models[known]

"""Checks of each worker at the start of its KV event stream. Disagreements between engine and gateway are logged.

Without these checks, a wrong configuration would only show as a cache hit rate of zero.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from cache_index import WorkerId
from gateway.app.tokenizers import Tokenizers
from gateway.models.cache_check import Examinee, Verdict
from gateway.models.exact_prompts import ExactPrompts
from gateway.models.model import Model
from gateway.models.tokenizing.agreement import agreement, distrusted
from gateway.models.tokenizing.engine_question import EngineAddress
from gateway.models.tokenizing.features import Feature
from gateway.workers.event_subscriptions import SubscriptionTarget
from gateway.workers.kv_events.feed import Trust

_log = logging.getLogger(__name__)

INTERVAL_S = 1.0
WORDS: dict[Verdict, str] = {
    "unknown": "could not be tested",
    "model": "does not serve a model with the name that requests use (upstream_model)",
    "tokens": "counts the tokens of a text differently than the gateway's tokenizer (tokenizer.path)",
    "topic": "published no KV events for a prompt; check the endpoint and topic of its KV events",
    "block_size": "publishes a block size that differs from its metrics",
    "prefix": "publishes blocks that do not match a test prompt; check its tokenizer, chat template and adapter",
    "salt": "publishes blocks that do not match a prompt with a cache_salt",
    "cached_tokens": "reports a number of cached tokens that differs from its KV events",
}


class Streams(Protocol):
    """Interface of the KV event streams of workers.

    `gateway.workers.event_subscriptions.EventSubscriptions` implements this interface.
    """

    def subjects(self) -> Mapping[WorkerId, SubscriptionTarget]: ...

    def state(self, worker: WorkerId) -> Trust | None: ...

    def blocks_heard(self, worker: WorkerId) -> int: ...


class Check(Protocol):
    """Cache check of one worker. `gateway.models.cache_check.CacheCheck` implements this interface."""

    async def verdict(self, examinee: Examinee) -> Verdict: ...

    async def block_hash(self, examinee: Examinee) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Examination:
    """Results of the checks of one worker."""

    verdict: Verdict
    differing: frozenset[Feature] = frozenset()
    """Prompt features for which the engine's tokens differ from the gateway's."""
    block_hash: int | None = None
    """Engine's hash of a test block that all workers received, or None if unknown."""


class StartChecks:
    """Checks of all workers of *models*, whose workers can change at any time.

    A result applies until the worker's stream restarts.
    """

    def __init__(self, models: Iterable[Model], streams: Streams, check: Check, tokenizers: Tokenizers) -> None:
        self._models = models
        self._streams = streams
        self._check = check
        self._tokenizers = tokenizers
        self._found: dict[tuple[str, SubscriptionTarget], Examination] = {}

    async def run(self) -> None:
        """Check every worker that was not checked yet, again and again, until canceled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self.check()

    async def check(self) -> None:
        """Check all reachable workers that have not been checked yet."""
        due: list[tuple[Model, ExactPrompts, SubscriptionTarget]] = []
        followed = self._streams.subjects()
        for model in self._models:
            prompts = model.exact_prompts
            if prompts is None or (prompts.local is not None and prompts.local.is_loading):
                continue
            halves = _cannot_be_tried(model)
            due += [(model, prompts, followed[w]) for w in model.workers if w in followed and w not in halves]
        current = {(model.name, subject) for model, _, subject in due}
        self._found = {key: examination for key, examination in self._found.items() if key in current}
        for model, prompts, subject in due:
            if (model.name, subject) not in self._found and self._streams.state(subject.worker) == "live":
                await self._examine(model, prompts, subject)

    def examination(self, model: str, worker: WorkerId) -> Examination | None:
        """Return the result of the checks of a worker, or None if the worker has not been checked yet."""
        of_worker = (x for (name, subject), x in self._found.items() if (name, subject.worker) == (model, worker))
        return next(of_worker, None)

    async def _examine(self, model: Model, prompts: ExactPrompts, subject: SubscriptionTarget) -> None:
        differing = await self._compare_tokens(model, prompts, subject)
        capacities = {state.id: state.engine_capacity for state in model.fleet}
        capacity = capacities.get(subject.worker)
        examinee = Examinee(
            subject.worker,
            subject.url,
            dict(subject.headers),
            model.upstream_name,
            prompts,
            capacity[1] if capacity is not None else None,
            lambda: self._streams.blocks_heard(subject.worker),
        )
        verdict = await self._check.verdict(examinee)
        block_hash = await self._check.block_hash(examinee)
        self._found[model.name, subject] = Examination(verdict, differing, block_hash)
        if verdict == "agrees":
            _log.info("worker %s of model %s publishes KV events that match its cache", subject.worker, model.name)
        else:
            _log.warning("worker %s of model %s %s", subject.worker, model.name, WORDS[verdict])

    async def _compare_tokens(
        self, model: Model, prompts: ExactPrompts, subject: SubscriptionTarget
    ) -> frozenset[Feature]:
        """Disable local tokenization for prompts with features that the engine tokenizes differently. Return them."""
        tokenizer = prompts.local.tokenizer if prompts.local is not None else None
        if tokenizer is None:
            return frozenset()
        address = EngineAddress(subject.url, dict(subject.headers))
        verdicts = await agreement(tokenizer, self._tokenizers.engine(lambda: [address]), model=model.upstream_name)
        differing: frozenset[Feature] = distrusted(verdicts)
        if differing:
            tokenizer.distrust(differing | tokenizer.distrusted)
            _log.warning(
                "worker %s of model %s tokenizes prompts with %s differently; the gateway stops tokenizing them",
                subject.worker,
                model.name,
                ", ".join(sorted(differing)),
            )
        return differing


def _cannot_be_tried(model: Model) -> set[WorkerId]:
    """Return the workers that cannot be checked. Prefill and decode workers of SGLang reject complete requests."""
    if model.prefill_decode is None or model.prefill_decode.flow != "sglang":
        return set()
    return {worker.id for worker in model.fleet if worker.role != "both"}

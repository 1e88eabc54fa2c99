"""Checks each worker once, when its engine begins to tell of its cache; says what disagrees, instead of a silent 0."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

from cache_index import WorkerId
from gateway.cache_check import Examinee, Verdict
from gateway.exact_prompts import ExactPrompts
from gateway.followers import Subject
from gateway.kv_events.feed import Trust
from gateway.model import Model
from gateway.tokenizers import Tokenizers
from gateway.tokenizing.agreement import agreement, distrusted
from gateway.tokenizing.engine_question import EngineAddress
from gateway.tokenizing.features import Feature

_log = logging.getLogger(__name__)

INTERVAL_S = 1.0
WORDS: dict[Verdict, str] = {
    "unknown": "could not be tried out",
    "model": "does not know the model under the name that requests are sent with (upstream_model)",
    "tokens": "makes another number of tokens of a text than the tokenizer here (tokenizer.path)",
    "topic": "told nothing of a prompt that it computed: look at endpoint and topic of its KV events",
    "block_size": "tells of blocks of another size than its metrics have",
    "prefix": "tells of blocks that are not those of the prompt: another tokenizer, template or adapter",
    "salt": "tells of blocks that are not those of the prompt if that has a cache_salt",
    "cached_tokens": "reports another number of cached tokens than it told of",
}


class Streams(Protocol):
    """Whom somebody listens to; see `gateway.followers.Followers`."""

    def subjects(self) -> Mapping[WorkerId, Subject]: ...

    def state(self, worker: WorkerId) -> Trust | None: ...

    def blocks_heard(self, worker: WorkerId) -> int: ...


class Check(Protocol):
    """See `gateway.cache_check.CacheCheck`."""

    async def verdict(self, examinee: Examinee) -> Verdict: ...


class StartChecks:
    """*models* are read anew each time. What was found stands until the worker is followed anew."""

    def __init__(self, models: Iterable[Model], streams: Streams, check: Check, tokenizers: Tokenizers) -> None:
        self._models = models
        self._streams = streams
        self._check = check
        self._tokenizers = tokenizers
        self._found: dict[tuple[str, Subject], Verdict] = {}

    async def run(self) -> None:
        """Check whoever has not been checked, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self.check()

    async def check(self) -> None:
        """One round over all workers that can be checked and have not been."""
        due: list[tuple[Model, ExactPrompts, Subject]] = []
        followed = self._streams.subjects()
        for model in self._models:
            prompts = model.exact_prompts
            if prompts is None or (prompts.local is not None and prompts.local.is_loading):
                continue
            halves = _cannot_be_tried(model)
            due += [(model, prompts, followed[w]) for w in model.workers if w in followed and w not in halves]
        self._found = {key: verdict for key, verdict in self._found.items() if key in {(m.name, s) for m, _, s in due}}
        for model, prompts, subject in due:
            if (model.name, subject) not in self._found and self._streams.state(subject.worker) == "live":
                await self._examine(model, prompts, subject)

    def verdict(self, model: str, worker: WorkerId) -> Verdict | None:
        """None until it has been tried."""
        return next(
            (v for (name, subject), v in self._found.items() if (name, subject.worker) == (model, worker)), None
        )

    async def _examine(self, model: Model, prompts: ExactPrompts, subject: Subject) -> None:
        await self._compare_tokens(model, prompts, subject)
        capacities = {state.id: state.engine_capacity for state in model.fleet}
        capacity = capacities.get(subject.worker)
        verdict = await self._check.verdict(
            Examinee(
                subject.worker,
                subject.url,
                dict(subject.headers),
                model.upstream_name,
                prompts,
                capacity[1] if capacity is not None else None,
                lambda: self._streams.blocks_heard(subject.worker),
            )
        )
        self._found[model.name, subject] = verdict
        if verdict == "agrees":
            _log.info("worker %s of model %s has what it tells", subject.worker, model.name)
        else:
            _log.warning("worker %s of model %s %s", subject.worker, model.name, WORDS[verdict])

    async def _compare_tokens(self, model: Model, prompts: ExactPrompts, subject: Subject) -> None:
        """Have what the engine sees differently refused from now on, if tokens are made here."""
        tokenizer = prompts.local.tokenizer if prompts.local is not None else None
        if tokenizer is None:
            return
        address = EngineAddress(subject.url, dict(subject.headers))
        verdicts = await agreement(tokenizer, self._tokenizers.engine(lambda: [address]), model=model.upstream_name)
        differing: frozenset[Feature] = distrusted(verdicts)
        if differing:
            tokenizer.distrust(differing | tokenizer.distrusted)
            _log.warning(
                "worker %s of model %s makes other tokens of prompts with %s: their tokens are not made here any more",
                subject.worker,
                model.name,
                ", ".join(sorted(differing)),
            )


def _cannot_be_tried(model: Model) -> set[WorkerId]:
    """SGLang's workers that do a half refuse a whole completion."""
    if model.division is None or model.division.flow != "sglang":
        return set()
    return {worker.id for worker in model.fleet if worker.role != "both"}

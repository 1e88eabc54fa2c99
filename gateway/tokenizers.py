"""Who tells the exact tokens of a model's prompts, as its settings say."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from gateway.settings import TokenizerSettings
from gateway.tokenizing.engine_question import EngineAddress, EngineQuestion
from gateway.tokenizing.engine_render import EngineRender
from gateway.tokenizing.engine_tokenize import EngineTokenize
from gateway.tokenizing.given_ids import GivenIds
from gateway.tokenizing.ladder import Ladder
from gateway.tokenizing.later import LoadedLater
from gateway.tokenizing.loading import load_local
from gateway.tokenizing.rung import Rung

Addresses = Callable[[], Sequence[EngineAddress]]

ENGINE_CHECK_S = 5.0
"""How long an engine may take over a question that no request waits for."""


@dataclass(frozen=True, slots=True)
class TokenSource:
    rung: Rung
    local: LoadedLater | None
    """The part of it that makes tokens here; None if there is none."""


class Tokenizers:
    """Makes them; *executor* runs what is long, and must be shut down before the event loop is closed."""

    def __init__(self, *, executor: Executor, client: httpx.AsyncClient, clock: Callable[[], float]) -> None:
        self._executor = executor
        self._client = client
        self._clock = clock

    def of(self, model: str, settings: TokenizerSettings, addresses: Addresses) -> TokenSource:
        """Token ids that a request brings are always taken as they are; whatever else there is comes after.

        *addresses* gives the engines that may be asked.
        """
        local = self._local(model, settings)
        rungs: list[Rung] = [GivenIds()]
        if local is not None:
            rungs.append(local)
        if settings.source in ("auto", "engine"):
            rungs += self._asked(addresses, settings.budget_s)
        return TokenSource(Ladder(rungs), local)

    def engine(self, addresses: Addresses) -> Rung:
        """Whoever of *addresses* can tell, in as much time as it takes: for comparisons, not for requests."""
        return Ladder(self._asked(addresses, ENGINE_CHECK_S))

    def _local(self, model: str, settings: TokenizerSettings) -> LoadedLater | None:
        if settings.path is None or settings.source not in ("auto", "local"):
            return None
        load = partial(load_local, Path(settings.path), executor=self._executor, budget_s=settings.budget_s)
        return LoadedLater(load, executor=self._executor, model=model)

    def _asked(self, addresses: Addresses, timeout_s: float) -> list[Rung]:
        question = EngineQuestion(self._client, addresses, timeout_s=timeout_s, clock=self._clock)
        return [EngineRender(question), EngineTokenize(question)]

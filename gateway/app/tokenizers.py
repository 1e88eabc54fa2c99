"""Sources of exact tokens for the prompts of a model."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import httpx

from gateway.models.tokenizing.engine_question import EngineAddress, EngineQuestion
from gateway.models.tokenizing.engine_render import EngineRender
from gateway.models.tokenizing.engine_tokenize import EngineTokenize
from gateway.models.tokenizing.given_ids import GivenIds
from gateway.models.tokenizing.later import LoadedLater
from gateway.models.tokenizing.loading import load_local
from gateway.models.tokenizing.token_source import TokenSource
from gateway.models.tokenizing.tokenizer_chain import TokenizerChain

Addresses = Callable[[], Sequence[EngineAddress]]

ENGINE_CHECK_S = 5.0
"""Seconds that an engine may take for an answer that no request waits for."""


@dataclass(frozen=True, slots=True)
class TokenizerSpec:
    """Source of the exact tokens of a model's prompts."""

    source: Literal["auto", "local", "engine", "none"] = "auto"
    path: Path | None = None
    """Folder with the files of a tokenizer."""
    budget_s: float = 0.05
    """Longest wait for tokens."""


@dataclass(frozen=True, slots=True)
class ModelTokens:
    token_source: TokenSource
    local: LoadedLater | None
    """The part of it that makes tokens here; None: no part does."""


class Tokenizers:
    """Makes them; *executor* runs what is long, and must be shut down before the event loop is closed."""

    def __init__(self, *, executor: Executor, client: httpx.AsyncClient, clock: Callable[[], float]) -> None:
        self._executor = executor
        self._client = client
        self._clock = clock

    def of(self, model: str, spec: TokenizerSpec, addresses: Addresses) -> ModelTokens:
        """Token ids that a request brings are always taken as they are; whatever else there is comes after.

        *addresses* gives the engines that may be asked.
        """
        local = self._local(model, spec)
        token_sources: list[TokenSource] = [GivenIds()]
        if local is not None:
            token_sources.append(local)
        if spec.source in ("auto", "engine"):
            token_sources += self._asked(addresses, spec.budget_s)
        return ModelTokens(TokenizerChain(token_sources), local)

    def engine(self, addresses: Addresses) -> TokenSource:
        """Return a source that asks the engines of *addresses*, with a long limit, for comparisons only."""
        return TokenizerChain(self._asked(addresses, ENGINE_CHECK_S))

    def _local(self, model: str, spec: TokenizerSpec) -> LoadedLater | None:
        if spec.path is None or spec.source not in ("auto", "local"):
            return None
        load = partial(load_local, spec.path, executor=self._executor, budget_s=spec.budget_s)
        return LoadedLater(load, executor=self._executor, model=model)

    def _asked(self, addresses: Addresses, timeout_s: float) -> list[TokenSource]:
        question = EngineQuestion(self._client, addresses, timeout_s=timeout_s, clock=self._clock)
        return [EngineRender(question), EngineTokenize(question)]

"""Build the sources of exact prompt tokens for each model."""

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
"""Maximum seconds for an engine to answer a check that delays no request."""


@dataclass(frozen=True, slots=True)
class TokenizerSpec:
    """Options for the source of exact prompt tokens."""

    source: Literal["auto", "local", "engine", "none"] = "auto"
    path: Path | None = None
    """Folder with the files of a local tokenizer, or None."""
    budget_s: float = 0.05
    """Maximum seconds that a request waits for its tokens."""


@dataclass(frozen=True, slots=True)
class ModelTokens:
    token_source: TokenSource
    local: LoadedLater | None
    """Local tokenizer among the token sources of the model, or None."""


class Tokenizers:
    """Factory for token sources. Long computations run in *executor*. Shut it down before the event loop is closed."""

    def __init__(self, *, executor: Executor, client: httpx.AsyncClient, clock: Callable[[], float]) -> None:
        self._executor = executor
        self._client = client
        self._clock = clock

    def of(self, model: str, spec: TokenizerSpec, addresses: Addresses) -> ModelTokens:
        """Return the sources of prompt tokens for a model.

        Token IDs in a request are used first, then a local tokenizer, then the engine.

        *addresses* returns the engines that may be queried.
        """
        local = self._local(model, spec)
        token_sources: list[TokenSource] = [GivenIds()]
        if local is not None:
            token_sources.append(local)
        if spec.source in ("auto", "engine"):
            token_sources += self._asked(addresses, spec.budget_s)
        return ModelTokens(TokenizerChain(token_sources), local)

    def engine(self, addresses: Addresses) -> TokenSource:
        """Return a source that requests tokens from the engines at *addresses*, with a long timeout.

        Use it only for checks.
        """
        return TokenizerChain(self._asked(addresses, ENGINE_CHECK_S))

    def _local(self, model: str, spec: TokenizerSpec) -> LoadedLater | None:
        if spec.path is None or spec.source not in ("auto", "local"):
            return None
        load = partial(load_local, spec.path, executor=self._executor, budget_s=spec.budget_s)
        return LoadedLater(load, executor=self._executor, model=model)

    def _asked(self, addresses: Addresses, timeout_s: float) -> list[TokenSource]:
        question = EngineQuestion(self._client, addresses, timeout_s=timeout_s, clock=self._clock)
        return [EngineRender(question), EngineTokenize(question)]

"""A tokenizer that is still being read, or could not be."""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING

from gateway.tokenizing.exactness import Exact, NotExact
from gateway.tokenizing.loading import UnusableFolder
from gateway.tokenizing.rung import RawPrompt

if TYPE_CHECKING:  # what it needs is an extra
    from gateway.tokenizing.local import LocalTokenizer

_log = logging.getLogger(__name__)


class LoadedLater:
    """A `Rung` that can tell nothing until *load* is through, which runs in *executor*: vocabularies take seconds.

    Where *load* raises it stays so, and the log says why, once.
    """

    def __init__(self, load: "Callable[[], LocalTokenizer]", *, executor: Executor, model: str) -> None:
        self._model = model
        self._loading: Future[LocalTokenizer] | None = executor.submit(load)
        self._loaded: LocalTokenizer | None = None

    @property
    def is_loading(self) -> bool:
        """False also if it never will be there."""
        return self.tokenizer is None and self._loading is not None

    @property
    def tokenizer(self) -> "LocalTokenizer | None":
        """None until it is there."""
        loading = self._loading
        if loading is not None and loading.done():
            self._loading = None
            self._take(loading)
        return self._loaded

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        tokenizer = self.tokenizer
        return NotExact("unavailable") if tokenizer is None else await tokenizer.ids(prompt)

    def _take(self, loading: "Future[LocalTokenizer]") -> None:
        if loading.cancelled():
            return
        fault = loading.exception()
        if fault is None:
            self._loaded = loading.result()
        elif isinstance(fault, UnusableFolder):
            _log.error("model %s: no exact tokens are made here: %s", self._model, fault)
        else:
            _log.error("model %s: no exact tokens are made here", self._model, exc_info=fault)

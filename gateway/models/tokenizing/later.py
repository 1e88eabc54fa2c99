"""Tokenizer that is still being loaded or that could not be loaded."""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING

from gateway.models.tokenizing.exactness import Exact, NotExact, UnusableFolder
from gateway.models.tokenizing.token_source import RawPrompt

if TYPE_CHECKING:  # what it needs is an extra
    from gateway.models.tokenizing.local import LocalTokenizer

_log = logging.getLogger(__name__)


class LoadedLater:
    """Token source that becomes available when *load* has run in *executor*, because vocabularies take seconds to load.

    If *load* raises, the tokenizer stays unavailable, and the log has the reason once.
    """

    def __init__(self, load: "Callable[[], LocalTokenizer]", *, executor: Executor, model: str) -> None:
        self._model = model
        self._loading: Future[LocalTokenizer] | None = executor.submit(load)
        self._loaded: LocalTokenizer | None = None

    @property
    def is_loading(self) -> bool:
        """Whether the tokenizer is still being loaded. The value is False after a failure."""
        return self.tokenizer is None and self._loading is not None

    @property
    def tokenizer(self) -> "LocalTokenizer | None":
        """Loaded tokenizer, or None if the tokenizer is not loaded yet."""
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
            _log.error("model %s: the gateway cannot tokenize prompts: %s", self._model, fault)
        else:
            _log.error("model %s: the gateway cannot tokenize prompts", self._model, exc_info=fault)

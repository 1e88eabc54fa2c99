"""Exact tokens from the model's own tokenizer and chat template, inside the gateway.

Long work does not run on the event loop. Rendering is Python code and holds the interpreter's lock in every thread, so
it uses a thread only if it would take milliseconds. Tokenizing is native code without the lock. No request waits longer
than the budget: the work continues, and the next turn of the conversation finds it done.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from cache_index.tokens import TOKEN_BYTES, TokenIds
from gateway.models.tokenizing.asked import Asked, AskedIds, AskedTexts
from gateway.models.tokenizing.bodies import asked_of
from gateway.models.tokenizing.chat_template import ChatTemplate, Rendered
from gateway.models.tokenizing.exactness import Exact, NotExact, Unknowable
from gateway.models.tokenizing.features import Feature, features_of
from gateway.models.tokenizing.given_ids import given
from gateway.models.tokenizing.segments import Pieces, Segments
from gateway.models.tokenizing.token_source import RawPrompt

_log = logging.getLogger(__name__)

INLINE_BYTES = 64 * 1024
"""Maximum size in bytes of a body that is parsed and rendered on the event loop. This takes a millisecond at most, and
a thread costs a tenth of it.
"""
INLINE_CHARACTERS = 1_000
"""Maximum number of new characters to tokenize on the event loop, which takes a quarter of a millisecond."""


class LocalTokenizer:
    """Token source that uses the model's tokenizer inside the gateway, without an engine.

    If *template* is None, the model supports no chats. *executor* runs long work. At most *max_pending* prompts of the
    model are tokenized at once, and no request waits longer than *budget_s*.
    """

    def __init__(
        self,
        segments: Segments,
        template: ChatTemplate | None,
        *,
        executor: Executor,
        budget_s: float = 0.05,
        max_pending: int = 8,
    ) -> None:
        self._segments = segments
        self._template = template
        self._executor = executor
        self._budget_s = budget_s
        self._max_pending = max_pending
        self._pending = 0
        self._distrusted: frozenset[Feature] = frozenset()

    @property
    def pending(self) -> int:
        """Number of prompts that threads are tokenizing, including prompts whose requests no longer wait for it."""
        return self._pending

    @property
    def distrusted(self) -> frozenset[Feature]:
        """Prompt features that are refused, because the engine tokenizes them differently."""
        return self._distrusted

    def distrust(self, features: frozenset[Feature]) -> None:
        """Refuse exactly the prompts with any of *features* from now on, because the engine's tokens differ."""
        self._distrusted = features

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        """Return the exact tokens of *prompt*. Later messages of a conversation cost about 10 us each, plus their new
        text.
        """
        if len(prompt.body) > INLINE_BYTES:
            return await self._in_thread(lambda: self.tokens(prompt))
        try:
            work = self._begun(prompt)
            if work.missing_characters <= INLINE_CHARACTERS:
                return self._done(work)
        except Unknowable as unknowable:
            return NotExact(unknowable.reason)
        return await self._in_thread(lambda: self._done(work))

    def tokens(self, prompt: RawPrompt) -> Exact:
        """Return the exact tokens of *prompt* like `ids`, but in the calling thread and without a time limit.

        Raises:
            Unknowable: if the tokens cannot be determined.
        """
        return self._done(self._begun(prompt))

    def _begun(self, prompt: RawPrompt) -> "_Work":
        texts = self._texts(asked_of(prompt.path, prompt.body))
        if isinstance(texts, Exact):
            return _Work([], [], texts)
        return _Work(texts, [self._segments.split(text.text) for text in texts])

    def _texts(self, asked: Asked) -> Exact | Sequence[Rendered]:
        if self._distrusted and not self._distrusted.isdisjoint(features_of(asked)):
            raise Unknowable("disagrees")
        match asked:
            case AskedIds():
                return given(asked)
            case AskedTexts():
                return [Rendered(text, len(text), asked.add_special_tokens) for text in asked.prompts]
            case _:
                if self._template is None:
                    raise Unknowable("template")
                return [self._template.render(asked)]

    def _done(self, work: "_Work") -> Exact:
        if work.exact is not None:
            return work.exact
        made = [self._made(text, pieces) for text, pieces in zip(work.texts, work.pieces, strict=True)]
        return Exact(b"".join([exact.ids for exact in made]), made[0].exact_tokens)

    def _made(self, rendered: Rendered, pieces: Pieces) -> Exact:
        before, after = self._special_tokens() if rendered.add_special_tokens else (b"", b"")
        ids = before + self._segments.encode(pieces) + after
        if rendered.exact_characters == len(rendered.text):
            return Exact(ids, len(ids) // TOKEN_BYTES)
        sure = self._segments.sure(rendered.text, rendered.exact_characters)
        exact = before + self._segments.encode(self._segments.split(sure)) if sure else b""
        return Exact(ids, len(exact) // TOKEN_BYTES)

    def _special_tokens(self) -> tuple[TokenIds, TokenIds]:
        if self._segments.special_tokens is None:
            raise Unknowable("unsupported")
        return self._segments.special_tokens

    async def _in_thread(self, work: Callable[[], Exact]) -> Exact | NotExact:
        if self._pending >= self._max_pending:
            return NotExact("busy")
        try:
            future = asyncio.get_running_loop().run_in_executor(self._executor, _outcome, work)
        except RuntimeError:  # it was shut down
            return NotExact("busy")
        self._pending += 1
        future.add_done_callback(self._ended)
        done, _ = await asyncio.wait({future}, timeout=self._budget_s)
        if not done:
            return NotExact("slow")
        return NotExact("unsupported") if future.exception() else future.result()

    def _ended(self, future: "asyncio.Future[Exact | NotExact]") -> None:
        self._pending -= 1
        error = None if future.cancelled() else future.exception()
        if error is not None:  # only its kind: the text could contain parts of the prompt
            _log.error("a prompt could not be tokenized: %s", type(error).__name__)


@dataclass(frozen=True, slots=True)
class _Work:
    """Prompt that was rendered and split into segments, or that is already tokenized."""

    texts: Sequence[Rendered]
    pieces: Sequence[Pieces]
    exact: Exact | None = None

    @property
    def missing_characters(self) -> int:
        return sum(pieces.missing_characters for pieces in self.pieces)


def _outcome(work: Callable[[], Exact]) -> Exact | NotExact:
    try:
        return work()
    except Unknowable as unknowable:
        return NotExact(unknowable.reason)

"""Exact tokens made here, by the model's own tokenizer and chat template.

What is long does not run on the event loop. Rendering is Python and takes the interpreter's lock wherever it runs, so
it goes into a thread only where it would take milliseconds; making tokens is native code and leaves the lock alone.
Nobody waits for longer than the budget: what was begun goes on, and the next turn of the conversation finds it done.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from cache_index.tokens import TOKEN_BYTES, TokenIds
from gateway.tokenizing.asked import Asked, AskedIds, AskedTexts
from gateway.tokenizing.bodies import asked_of
from gateway.tokenizing.chat_template import ChatTemplate, Rendered
from gateway.tokenizing.exactness import Exact, NotExact, Unknowable
from gateway.tokenizing.features import Feature, features_of
from gateway.tokenizing.given_ids import given
from gateway.tokenizing.rung import RawPrompt
from gateway.tokenizing.segments import Pieces, Segments

_log = logging.getLogger(__name__)

INLINE_BYTES = 64 * 1024
"""Of a body that is read and rendered on the event loop: a millisecond at most, where a thread costs a tenth of one."""
INLINE_CHARACTERS = 1_000
"""Of new text that is made to tokens on the event loop: a quarter of a millisecond."""


class LocalTokenizer:
    """A `Rung` that asks nobody.

    *template* None: the model has no chats. *executor* runs what is long; at most *most_pending* of it for this model
    are under way, and none is waited for longer than *budget_s*.
    """

    def __init__(
        self,
        segments: Segments,
        template: ChatTemplate | None,
        *,
        executor: Executor,
        budget_s: float = 0.05,
        most_pending: int = 8,
    ) -> None:
        self._segments = segments
        self._template = template
        self._executor = executor
        self._budget_s = budget_s
        self._most_pending = most_pending
        self._pending = 0
        self._distrusted: frozenset[Feature] = frozenset()

    @property
    def pending(self) -> int:
        """How much is under way in threads, also of what nobody waits for any more."""
        return self._pending

    @property
    def distrusted(self) -> frozenset[Feature]:
        """Prompts that have any of these are refused."""
        return self._distrusted

    def distrust(self, features: frozenset[Feature]) -> None:
        """From now on, refuse prompts that have any of *features*, and no others: the engine sees them differently."""
        self._distrusted = features

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        """The tokens of *prompt*. For a later turn some 10 us per message and what its own text costs."""
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
        """The same in the calling thread, however long it takes.

        Raises:
            Unknowable: the tokens cannot be told.
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
        if self._pending >= self._most_pending:
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
        if error is not None:  # only its kind: the text could tell of the prompt
            _log.error("a prompt could not be tokenised: %s", type(error).__name__)


@dataclass(frozen=True, slots=True)
class _Work:
    """A prompt rendered and cut, or finished already."""

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

"""A filter that finds things by itself, with detectors."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gateway.errors import GuardrailAway, TooMuchToScan
from gateway.guardrails.filter import BLOCK, LOG, PASS, Action, Question, Text, Verdict
from gateway.guardrails.redactor import Redactor, Scan

T = TypeVar("T")

PIECE_CHARS = 2048
"""Of a long text, after which others have their turn: a millisecond, and at worst seven."""
INLINE_CHARS = 4096
"""Characters that are looked at on the event loop; more of them are in a thread, which takes some 100 us."""
REMEMBERED_CHARS = 256
"""A shorter text is looked at again sooner than it is remembered."""
MOST_REMEMBERED = 32_768
"""Texts in which nothing was found, some 100 bytes for each: a conversation brings all its messages with every turn."""
TIMEOUT_S = 2.0
MOST_WAITING = 16
"""Questions with long texts; those that come then are refused: each waits for all before it."""
GIVE_WAY_S = 0.0002


class ScanThread:
    """The one thread in which long texts are looked at, for all filters. There is none before the first."""

    def __init__(self, *, most_waiting: int = MOST_WAITING) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="guardrails")
        self._most_waiting = most_waiting
        self._waiting = 0

    async def run(self, act: Callable[[], T]) -> T:
        """What *act* returns.

        Raises:
            GuardrailAway: too much waits for the thread.
        """
        if self._waiting >= self._most_waiting:
            raise GuardrailAway("Too many long texts wait for guardrails; retry later", retry_after_s=2)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, act)
        finally:
            self._waiting -= 1


class ScanFilter:
    """Looks for what a `Scan` finds.

    It is away where *timeout_s* seconds of processor time are not enough for a question, or too many wait for *thread*.
    """

    def __init__(
        self,
        name: str,
        scan: Scan,
        action: Action,
        *,
        timeout_s: float = TIMEOUT_S,
        thread: ScanThread | None = None,
        processor_time: Callable[[], float] = time.thread_time,
    ) -> None:
        self._name = name
        self.scan = scan
        self.action = action
        self._timeout_s = timeout_s
        self._thread = ScanThread() if thread is None else thread
        self._processor_time = processor_time
        # By Python's hash of the text: keyed anew in each process, so nobody can make two texts with the same one.
        self._clean: dict[int, None] = {}

    @property
    def name(self) -> str:
        return self._name

    async def verdict(self, question: Question) -> Verdict:
        """O(characters), of which those that were looked at before cost next to nothing. The event loop has its turn
        in between.
        """
        look = _Look(self.scan, self.action, [self._is_clean(text) for text in question.texts], question.texts)
        steps = self._timed(look, question)
        try:
            if look.characters <= INLINE_CHARS:
                for _ in steps:
                    await asyncio.sleep(0)
            else:
                await self._thread.run(lambda: _finish(steps, look))
        finally:
            look.is_wanted = False
        for text in look.clean:
            self._remember(text)
        return look.verdict()

    def _timed(self, look: "_Look", question: Question) -> Iterator[None]:
        """The steps of *look*, within the time that there is for them."""
        used_s = 0.0
        steps = look.steps()
        while True:
            began = self._processor_time()
            is_over = next(steps, _OVER) is _OVER
            used_s += self._processor_time() - began
            if is_over:
                return
            if used_s > self._timeout_s:
                raise self._too_much(question)
            yield None

    def _too_much(self, question: Question) -> GuardrailAway:
        size = sum(len(text.said) for text in question.texts)
        why = f"The guardrail {self._name!r} could not look at {size} characters within its {self._timeout_s:g} s"
        if question.direction == "response":
            return GuardrailAway(why, retry_after_s=2)
        return TooMuchToScan(f"{why} (guardrails[].timeout_s): send less text at once")

    def _is_clean(self, text: Text) -> bool:
        return len(text.said) >= REMEMBERED_CHARS and hash(text.said) in self._clean

    def _remember(self, text: str) -> None:
        if len(self._clean) >= MOST_REMEMBERED:
            del self._clean[next(iter(self._clean))]
        self._clean[hash(text)] = None


class _Look:
    """One look at all texts of a question, step by step."""

    def __init__(self, scan: Scan, action: Action, known: list[bool], texts: tuple[Text, ...]) -> None:
        self._scan = scan
        self._action = action
        self._texts = list(zip(texts, known, strict=True))
        self.characters = sum(len(text.said) for text, is_clean in self._texts if not is_clean)
        """To be looked at."""
        self.is_wanted = True
        """False: nobody waits for it any more."""
        self._told: list[str] = []
        self._found = 0
        self.clean: list[str] = []
        """Texts without anything, long enough to be remembered."""

    def steps(self) -> Iterator[None]:
        """Pieces of the work; it is done at their end, or when something was found that blocks."""
        since_turn = 0
        for text, is_clean in self._texts:
            if is_clean:
                self._told.append(text.said)
                continue
            redactor = Redactor(self._scan, is_json=text.is_json)
            pieces: list[str] = []
            for start in range(0, len(text.said), PIECE_CHARS):
                pieces.append(redactor.feed(text.said[start : start + PIECE_CHARS]))
                since_turn += min(PIECE_CHARS, len(text.said) - start)
                if since_turn >= PIECE_CHARS:
                    since_turn = 0
                    yield None
            self._told.append("".join(pieces) + redactor.end())
            self._found += redactor.found
            if self._found and self._action == "block":
                return
            if not redactor.found and len(text.said) >= REMEMBERED_CHARS:
                self.clean.append(text.said)

    def verdict(self) -> Verdict:
        """When all steps are done."""
        if not self._found:
            return PASS
        if self._action == "block":
            return BLOCK
        return LOG if self._action == "log" else Verdict("redact", tuple(self._told))


def _finish(steps: Iterator[None], look: _Look) -> None:
    """All *steps*, in a thread that gives way to the event loop."""
    for _ in steps:
        if not look.is_wanted:
            return
        time.sleep(GIVE_WAY_S)


_OVER = object()

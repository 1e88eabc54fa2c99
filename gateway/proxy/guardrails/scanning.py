"""Guardrail filter that scans texts with the gateway's own detectors."""

import asyncio
import time
from collections.abc import Callable, Container, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gateway.protocol.errors import GuardrailUnavailable, TooMuchToScan
from gateway.proxy.guardrails.detector import Rest
from gateway.proxy.guardrails.filter import BLOCK, LOG, PASS, Action, FilterRequest, Text, Verdict
from gateway.proxy.guardrails.parts import NEAR_CHARS, SEPARATORS, Cut, MarkedScan, cut, cuts_of, groups_of, windows
from gateway.proxy.guardrails.redactor import Find, Redactor, Scan

T = TypeVar("T")

PIECE_CHARS = 2048
"""Number of characters to scan before other tasks of the event loop can run. A scan takes 1 ms on average and 7 ms at
worst.
"""
INLINE_CHARS = 4096
"""Maximum number of characters to scan on the event loop. Longer texts are scanned in a thread, which costs some 100
us.
"""
INLINE_TEXTS = 2048
"""Maximum number of texts of a request to scan on the event loop."""
ASIDE_CHARS = 256 * 1024
"""Number of characters of a request above which the hashes of known texts are also computed in the thread. Hashing
takes about 1 ms per MiB.
"""
REMEMBERED_CHARS = 256
"""Minimum length in characters of a text whose clean result is cached. A shorter text can be scanned faster than looked
up.
"""
MOST_REMEMBERED = 32_768
"""Maximum number of cached texts without matches, at some 100 bytes each. The cache helps, because each request of a
conversation contains all earlier messages.
"""
TIMEOUT_S = 2.0
MOST_WAITING = 16
"""Maximum number of requests with long texts that wait for the scanning thread. Further requests are refused, because
each one would wait for all earlier ones.
"""
GIVE_WAY_S = 0.0002


class ScanThread:
    """Thread that scans the long texts of all guardrail filters. It starts when the first long text arrives."""

    def __init__(self, *, most_waiting: int = MOST_WAITING) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="guardrails")
        self._most_waiting = most_waiting
        self._waiting = 0

    async def run(self, act: Callable[[], T]) -> T:
        """Run *act* in the scanning thread and return its result.

        Raises:
            GuardrailUnavailable: if too many requests wait for the thread.
        """
        if self._waiting >= self._most_waiting:
            raise GuardrailUnavailable("Too many long texts are waiting for guardrails. Retry in 2 s.", retry_after_s=2)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, act)
        finally:
            self._waiting -= 1


class ScanFilter:
    """Guardrail filter that searches texts with the detectors of a `Scan`.

    The filter is unavailable if a request needs more than *timeout_s* seconds of CPU time, or if too many requests wait
    for *thread*.
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
        self._marked = MarkedScan(scan)
        self.action = action
        self._timeout_s = timeout_s
        self._thread = ScanThread() if thread is None else thread
        self._processor_time = processor_time
        # Python's hash of the text has a new key in each process: a caller cannot make two texts with the same hash.
        self._clean: dict[int, None] = {}

    @property
    def name(self) -> str:
        return self._name

    async def verdict(self, request: FilterRequest) -> Verdict:
        """Return the verdict on all texts of *request*. The scan takes O(characters) time, and lets other tasks run in
        between. A text that was scanned earlier takes almost no time.
        """
        look = _Look(self.scan, self._marked, self.action, request.texts, self._clean)
        is_inline = len(request.texts) <= INLINE_TEXTS and look.characters() <= INLINE_CHARS
        steps = self._timed(look, request)
        try:
            if is_inline:
                for _ in steps:
                    await asyncio.sleep(0)
            else:
                await self._thread.run(lambda: _finish(steps, look))
        finally:
            look.is_wanted = False
        for each in look.clean:
            self._remember(each)
        return look.verdict()

    def _timed(self, look: "_Look", request: FilterRequest) -> Iterator[None]:
        """Run the steps of the scan *look*, and raise an error if they exceed the limit on CPU time."""
        used_s = 0.0
        steps = look.steps()
        while True:
            began = self._processor_time()
            is_over = next(steps, _OVER) is _OVER
            used_s += self._processor_time() - began
            if is_over:
                return
            if used_s > self._timeout_s:
                raise self._too_much(request)
            yield None

    def _too_much(self, request: FilterRequest) -> GuardrailUnavailable:
        size = sum(len(text.said) for text in request.texts)
        why = f"The guardrail {self._name!r} could not check {size} characters within {self._timeout_s:g} s"
        if request.direction == "response":
            return GuardrailUnavailable(why, retry_after_s=2)
        return TooMuchToScan(f"{why} (guardrails[].timeout_s). Send less text in one request.")

    def _remember(self, digest: int) -> None:
        if len(self._clean) >= MOST_REMEMBERED:
            del self._clean[next(iter(self._clean))]
        self._clean[digest] = None


class _Look:
    """Stepwise scan of all texts of a request, first of each text alone, and then of the parts of each message."""

    def __init__(  # all of a filter
        self, scan: Scan, marked: MarkedScan, action: Action, texts: tuple[Text, ...], known: Container[int]
    ) -> None:
        """Prepare the scan. *known* has the hashes of texts in which an earlier scan found no matches."""
        self._scan = scan
        self._marked = marked
        self._action = action
        self._texts = texts
        self._known = known
        self.is_wanted = True
        """Whether the result of the scan is still wanted. The value is False after the request has ended."""
        self._changed: list[str] = []
        self._found = 0
        self._since_turn = 0
        self.clean: list[int] = []
        """Hashes of the texts and messages without matches that are long enough for the cache."""

    def steps(self) -> Iterator[None]:
        """Run the scan in steps. The scan ends when all texts are scanned or when a match blocks the request."""
        rests: dict[int, Rest | None] = {}
        for text in self._texts:
            yield from self._look_at(text, rests)
            if self._is_blocked():
                return
        for places in groups_of(self._texts):
            yield from self._look_together(places)
            if self._is_blocked():
                return
        for place, text in enumerate(self._texts):
            if text.group and self._changed[place] is not text.said:
                self._changed[place] = self._marked.shown(self._changed[place])

    def verdict(self) -> Verdict:
        """Return the verdict of the scan. All steps must have run."""
        if not self._found:
            return PASS
        if self._action == "block":
            return BLOCK
        return LOG if self._action == "log" else Verdict("redact", tuple(self._changed))

    def characters(self) -> int:
        """Return the number of characters to scan, or an upper bound for long requests."""
        characters = sum([len(text.said) for text in self._texts])
        if characters > ASIDE_CHARS:
            return characters
        characters = sum([len(text.said) for text in self._texts if not self._is_known(text)])
        for places in groups_of(self._texts):
            if not self._is_known_together(places):
                near = sum([min(len(self._texts[place].said), 2 * NEAR_CHARS) for place in places])
                characters += len(SEPARATORS) * near
        return characters

    def _is_known(self, text: Text) -> bool:
        return len(text.said) >= REMEMBERED_CHARS and hash(text.said) in self._known

    def _is_known_together(self, places: list[int]) -> bool:
        return self._digest(places) in self._known

    def _digest(self, places: list[int]) -> int:
        return hash(tuple([self._texts[place].said for place in places]))

    def _is_blocked(self) -> bool:
        return self._found > 0 and self._action == "block"

    def _look_at(self, text: Text, rests: dict[int, Rest | None]) -> Iterator[None]:
        """Scan *text*. If the previous part of a message ended within a match, *rests* has the continuation of the
        match.
        """
        rest = rests.pop(text.group, None) if text.group else None
        if rest is None and self._is_known(text):
            self._changed.append(text.said)
            return
        redactor = Redactor(self._marked if text.group else self._scan, is_json=text.is_json, rest=rest)
        changed = yield from self._fed(redactor, text.said)
        self._changed.append(changed if redactor.found or rest is not None else text.said)
        self._found += redactor.found
        if text.group:
            rests[text.group] = redactor.open_rest
        if not redactor.found and rest is None and len(text.said) >= REMEMBERED_CHARS:
            self.clean.append(hash(text.said))

    def _look_together(self, places: list[int]) -> Iterator[None]:
        parts = [self._changed[place] for place in places]
        is_clean = all(part is self._texts[place].said for part, place in zip(parts, places, strict=True))
        if is_clean and self._is_known_together(places):
            return
        for separator in SEPARATORS:
            cuts: list[Cut] = []
            for window in windows(parts):
                finds: list[Find] = []
                redactor = Redactor(self._marked, finds=finds)
                yield from self._fed(redactor, separator.join([piece.text for piece in window]))
                cuts += cuts_of(self._marked, window, separator, finds)
            if cuts:
                is_clean = False
                self._found += len(cuts)
                parts = cut(parts, cuts)
        for place, part in zip(places, parts, strict=True):
            self._changed[place] = part
        if is_clean and sum(map(len, parts)) >= REMEMBERED_CHARS:
            self.clean.append(self._digest(places))

    def _fed(self, redactor: Redactor, said: str) -> Generator[None, None, str]:
        """Return the text *said* as redacted by *redactor*."""
        pieces: list[str] = []
        for start in range(0, len(said), PIECE_CHARS):
            pieces.append(redactor.feed(said[start : start + PIECE_CHARS]))
            self._since_turn += min(PIECE_CHARS, len(said) - start)
            if self._since_turn >= PIECE_CHARS:
                self._since_turn = 0
                yield None
        return "".join(pieces) + redactor.end()


def _finish(steps: Iterator[None], look: _Look) -> None:
    """Run all of *steps* in a thread that regularly lets the event loop run."""
    for _ in steps:
        if not look.is_wanted:
            return
        time.sleep(GIVE_WAY_S)


_OVER = object()

"""A filter that finds things by itself, with detectors."""

import asyncio

from gateway.guardrails.filter import BLOCK, LOG, PASS, Action, Question, Verdict
from gateway.guardrails.redactor import Redactor, Scan

PIECE_CHARS = 16 * 1024
"""Of a long text, after which the event loop has its turn: some milliseconds."""


REMEMBERED_CHARS = 256
"""A shorter text is looked at again sooner than it is remembered."""
MOST_REMEMBERED = 32_768
"""Texts in which nothing was found, some 100 bytes for each: a conversation brings all its messages with every turn."""


class ScanFilter:
    """Looks for what a `Scan` finds. Never away."""

    def __init__(self, name: str, scan: Scan, action: Action) -> None:
        self._name = name
        self.scan = scan
        self.action = action
        # By Python's hash of the text: keyed anew in each process, so nobody can make two texts with the same one.
        self._clean: dict[int, None] = {}

    @property
    def name(self) -> str:
        return self._name

    async def verdict(self, question: Question) -> Verdict:
        """O(characters), of which those that were looked at before cost next to nothing. The event loop has its turn
        in between.
        """
        told: list[str] = []
        found = since_turn = 0
        for text in question.texts:
            if len(text.said) >= REMEMBERED_CHARS and hash(text.said) in self._clean:
                told.append(text.said)
                continue
            redactor = Redactor(self.scan, is_json=text.is_json)
            pieces: list[str] = []
            for start in range(0, len(text.said), PIECE_CHARS):
                pieces.append(redactor.feed(text.said[start : start + PIECE_CHARS]))
                since_turn += min(PIECE_CHARS, len(text.said) - start)
                if since_turn >= PIECE_CHARS:
                    since_turn = 0
                    await asyncio.sleep(0)
            told.append("".join(pieces) + redactor.end())
            found += redactor.found
            if found and self.action == "block":
                return BLOCK
            if not redactor.found and len(text.said) >= REMEMBERED_CHARS:
                self._remember(text.said)
        if not found:
            return PASS
        return LOG if self.action == "log" else Verdict("redact", tuple(told))

    def _remember(self, text: str) -> None:
        if len(self._clean) >= MOST_REMEMBERED:
            del self._clean[next(iter(self._clean))]
        self._clean[hash(text)] = None

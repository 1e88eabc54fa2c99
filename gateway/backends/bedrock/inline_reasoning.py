"""Thoughts that a model writes at the head of its answer, and the line breaks that are left in front of the answer.

They stand between ``<reasoning>`` and ``</reasoning>``, or ``<think>`` and ``</think>``.
gpt-oss does so on Bedrock's OpenAI-compatible path, where Converse has a block of its own for them; Kimi, Qwen and
others on either. Qwen's answers begin with empty lines.
"""

from collections.abc import Mapping
from enum import Enum

from gateway.backends.bedrock.stops import overlap

_CLOSING = {"<reasoning>": "</reasoning>", "<think>": "</think>"}
_BREAKS = "\r\n"


class _At(Enum):
    HEAD = "what has come may still become an opening tag"
    REASONING = "between the tags"
    ANSWER = "behind them, or without tags"


class ReasoningSplitter:
    """Splitter of a text, in pieces of any size, into reasoning and answer. Only tags at its head count."""

    def __init__(self, *, has_tags: bool = True) -> None:
        """*has_tags* False: the model writes no such tags, and only line breaks are removed."""
        self._closing: Mapping[str, str] = _CLOSING if has_tags else {}
        self._close = ""
        self._at = _At.HEAD
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """Return the reasoning and the answer that are certain now."""
        found = ""
        while text and self._at is not _At.ANSWER:
            if self._at is _At.HEAD:
                text = self._opened(self._held + text)
            if self._at is _At.REASONING:
                reasoning, text = self._split_reasoning(text)
                found += reasoning
        return found, text

    def rest(self) -> tuple[str, str]:
        """Return what was held back, at the end of the text."""
        held, self._held = self._held, ""
        return (held, "") if self._at is _At.REASONING else ("", held.lstrip(_BREAKS))

    def _opened(self, text: str) -> str:
        """Return the text behind an opening tag, or all of it without one; ``""`` while that is open."""
        stripped = text.lstrip()
        for opening, closing in self._closing.items():
            if stripped.startswith(opening):
                self._at, self._held, self._close = _At.REASONING, "", closing
                return stripped.removeprefix(opening)
        if any(opening.startswith(stripped) for opening in self._closing) or not text.lstrip(_BREAKS):
            self._held = text
            return ""
        self._at, self._held = _At.ANSWER, ""
        return text.lstrip(_BREAKS)

    def _split_reasoning(self, text: str) -> tuple[str, str]:
        """Return the reasoning that is certain, and the start of the answer after it."""
        reasoning, closed, answer = (self._held + text).partition(self._close)
        if closed:
            self._at, self._held, self._closing = _At.HEAD, "", {}
            return reasoning, answer
        certain = len(reasoning) - overlap(reasoning, self._close)
        self._held = reasoning[certain:]
        return reasoning[:certain], ""

"""Separation of the reasoning that a model writes at the start of its text from the answer after it.

The reasoning is enclosed in ``<reasoning>`` or ``<think>`` tags. gpt-oss writes it on Bedrock's OpenAI-compatible path,
where Converse has a separate block. Kimi, Qwen and other models write it on both. Qwen's answers also begin with empty
lines, which are removed.
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
    """Incremental splitter of a model's text into reasoning and answer. Only tags at the start of the text count."""

    def __init__(self, *, has_tags: bool = True) -> None:
        """Create a splitter. If *has_tags* is False, the text contains no reasoning and only leading line breaks are
        removed.
        """
        self._closing: Mapping[str, str] = _CLOSING if has_tags else {}
        self._close = ""
        self._at = _At.HEAD
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """Return the parts of the reasoning and of the answer that *text* completes."""
        found = ""
        while text and self._at is not _At.ANSWER:
            if self._at is _At.HEAD:
                text = self._opened(self._held + text)
            if self._at is _At.REASONING:
                reasoning, text = self._split_reasoning(text)
                found += reasoning
        return found, text

    def rest(self) -> tuple[str, str]:
        """Return the reasoning and the answer that are still held back at the end of the text."""
        held, self._held = self._held, ""
        return (held, "") if self._at is _At.REASONING else ("", held.lstrip(_BREAKS))

    def _opened(self, text: str) -> str:
        """Return the text after an opening tag, or ``""`` while a tag could still be incomplete. Without a tag, return
        all text.
        """
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
        """Return the reasoning that cannot be part of a closing tag, and the start of the answer after that tag."""
        reasoning, closed, answer = (self._held + text).partition(self._close)
        if closed:
            self._at, self._held, self._closing = _At.HEAD, "", {}
            return reasoning, answer
        certain = len(reasoning) - overlap(reasoning, self._close)
        self._held = reasoning[certain:]
        return reasoning[:certain], ""

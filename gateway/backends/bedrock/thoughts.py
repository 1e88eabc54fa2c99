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
    THOUGHT = "between the tags"
    ANSWER = "behind them, or there are none"


class ThoughtSplitter:
    """Takes a text in pieces of any size and tells thoughts from answer. Only what stands at its head is thought."""

    def __init__(self, *, has_tags: bool = True) -> None:
        """Without *has_tags* the model writes no such tags, and only the line breaks are taken away."""
        self._closing: Mapping[str, str] = _CLOSING if has_tags else {}
        self._close = ""
        self._at = _At.HEAD
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """The thought and the answer that are certain now."""
        thoughts = ""
        while text and self._at is not _At.ANSWER:
            if self._at is _At.HEAD:
                text = self._opened(self._held + text)
            if self._at is _At.THOUGHT:
                thought, text = self._thought(text)
                thoughts += thought
        return thoughts, text

    def rest(self) -> tuple[str, str]:
        """What was held back, when the text has ended."""
        held, self._held = self._held, ""
        return (held, "") if self._at is _At.THOUGHT else ("", held.lstrip(_BREAKS))

    def _opened(self, text: str) -> str:
        """The text behind an opening tag, or all of it where there is none; ``""`` while that is open."""
        stripped = text.lstrip()
        for opening, closing in self._closing.items():
            if stripped.startswith(opening):
                self._at, self._held, self._close = _At.THOUGHT, "", closing
                return stripped.removeprefix(opening)
        if any(opening.startswith(stripped) for opening in self._closing) or not text.lstrip(_BREAKS):
            self._held = text
            return ""
        self._at, self._held = _At.ANSWER, ""
        return text.lstrip(_BREAKS)

    def _thought(self, text: str) -> tuple[str, str]:
        """The thought that is certain, and what stands behind it: the head of the answer."""
        thought, closed, answer = (self._held + text).partition(self._close)
        if closed:
            self._at, self._held, self._closing = _At.HEAD, "", {}
            return thought, answer
        certain = len(thought) - overlap(thought, self._close)
        self._held = thought[certain:]
        return thought[:certain], ""

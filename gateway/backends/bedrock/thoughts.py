"""Thoughts that a model writes into its answer: ``<reasoning>...</reasoning>`` at the head of the text.

gpt-oss does so on Bedrock's OpenAI-compatible path, where Converse has a block of its own for them.
"""

from enum import Enum

from gateway.backends.bedrock.stops import overlap

_OPEN = "<reasoning>"
_CLOSE = "</reasoning>"


class _At(Enum):
    HEAD = "what has come may still become the opening tag"
    THOUGHT = "between the tags"
    ANSWER = "behind them, or there are none"


class ThoughtSplitter:
    """Takes a text in pieces of any size and tells thoughts from answer. Only what stands at its head is thought."""

    def __init__(self) -> None:
        self._at = _At.HEAD
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """The thought and the answer that are certain now."""
        if self._at is _At.HEAD:
            text = self._opened(self._held + text)
        if self._at is _At.THOUGHT:
            return self._thought(text)
        return "", text

    def rest(self) -> tuple[str, str]:
        """What was held back, when the text has ended."""
        held, self._held = self._held, ""
        return (held, "") if self._at is _At.THOUGHT else ("", held)

    def _opened(self, text: str) -> str:
        """The text behind the opening tag, or all of it where there is none; ``""`` while that is open."""
        stripped = text.lstrip()
        if stripped.startswith(_OPEN):
            self._at, self._held = _At.THOUGHT, ""
            return stripped.removeprefix(_OPEN)
        if _OPEN.startswith(stripped):
            self._held = text
            return ""
        self._at, self._held = _At.ANSWER, ""
        return text

    def _thought(self, text: str) -> tuple[str, str]:
        thought, closed, answer = (self._held + text).partition(_CLOSE)
        if closed:
            self._at, self._held = _At.ANSWER, ""
            return thought, answer
        certain = len(thought) - overlap(thought, _CLOSE)
        self._held = thought[certain:]
        return thought[:certain], ""

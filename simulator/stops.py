"""Stop strings: an answer ends with the token that completes one, and its text before that (vLLM's detokenizer)."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stops:
    strings: Sequence[str] = ()
    is_included: bool = False
    """The text ends behind the string that was found, not before it."""

    def find(self, pieces: Sequence[str], *, min_tokens: int = 0) -> "Stopped | None":
        """Return where the text of *pieces*, one per token, ends; ``None``: nowhere. O(text).

        Strings that the first *min_tokens* tokens complete do not count.
        """
        text = ""
        longest = max(map(len, self.strings), default=0)
        for number, piece in enumerate(pieces, start=1):
            start = max(0, len(text) - longest + 1)
            text += piece
            if number <= min_tokens or not piece:
                continue
            found = [(at, string) for string in self.strings if (at := text.find(string, start)) >= 0]
            if found:
                at, string = min(found)
                return Stopped(number, at + len(string) if self.is_included else at, string)
        return None


@dataclass(frozen=True, slots=True)
class Stopped:
    tokens: int
    """Tokens of the answer, with the one in which the string ends."""
    characters: int
    """Characters of the text that is shown."""
    string: str

"""Stop strings. As in vLLM's detokenizer, the answer ends with the token that completes a stop string."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stops:
    strings: Sequence[str] = ()
    is_included: bool = False
    """Whether the returned text includes the stop string."""

    def find(self, pieces: Sequence[str], *, min_tokens: int = 0) -> "Stopped | None":
        """Return where a stop string ends the text of *pieces* (one per token), or None. The cost is linear.

        Stop strings that are complete within the first *min_tokens* tokens do not count.
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
    """Number of answer tokens, including the token in which the stop string ends."""
    characters: int
    """Number of characters in the returned text."""
    string: str

"""The end of a text that the worker which goes on says once more."""

LONGEST = 256
"""Characters of the text so far that are looked for."""
SHORTEST = 16
"""Less than this repeats by chance, or because the text does."""


class Overlap:
    """Takes from a text that goes on what it repeats of the end of the text *before* it.

    As long as what came may still be a repetition it is kept back: at most `LONGEST` characters, in most cases none.
    """

    __slots__ = ("_before", "_came", "_is_open")

    def __init__(self, before: str) -> None:
        self._before = before[-LONGEST:]
        self._came = ""
        self._is_open = len(self._before) >= SHORTEST

    def fed(self, text: str, *, last: bool = False) -> str:
        """What goes on now that *text* has come; *last*: no more will."""
        if not self._is_open:
            return text
        self._came = came = self._came + text
        if not last and self._may_repeat_more(came):
            return ""
        self._is_open = False
        repeated = range(min(len(self._before), len(came)), SHORTEST - 1, -1)
        drop = next((length for length in repeated if self._before.endswith(came[:length])), 0)
        return came[drop:]

    def _may_repeat_more(self, came: str) -> bool:
        """Whether more of *before*, from some place to its end, may come than is here."""
        before = self._before
        place = before.find(came)
        while place >= 0:
            if len(before) - place >= max(SHORTEST, len(came) + 1):
                return True
            place = before.find(came, place + 1)
        return False

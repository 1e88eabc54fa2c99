"""The end of a text that the worker which continues it repeats."""

LONGEST = 256
"""Number of characters at the end of the text that are searched."""
SHORTEST = 16
"""Shortest repetition: a shorter one may be part of the text."""


class Overlap:
    """Removes from a continued text what it repeats of the end of the text *before* it.

    Text that may still be a repetition is held: at most `LONGEST` characters, in most cases none.
    """

    __slots__ = ("_before", "_came", "_is_open")

    def __init__(self, before: str) -> None:
        self._before = before[-LONGEST:]
        self._came = ""
        self._is_open = len(self._before) >= SHORTEST

    def fed(self, text: str, *, last: bool = False) -> str:
        """Return the new part of the text so far, now that *text* has come; *last*: it is the end."""
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
        """Return whether *came* may be the beginning of a longer repetition of the end of *before*."""
        before = self._before
        place = before.find(came)
        while place >= 0:
            if len(before) - place >= max(SHORTEST, len(came) + 1):
                return True
            place = before.find(came, place + 1)
        return False

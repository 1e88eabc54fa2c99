"""Remove text that a worker repeats when it continues an answer."""

LONGEST = 256
"""Number of characters at the end of the earlier text that are compared with the continued text."""
SHORTEST = 16
"""Length in characters of the shortest repetition to remove. A shorter match might be part of the answer."""


class Overlap:
    """Filter that removes the beginning of a continued text if it repeats the end of the text *before*.

    Text that may still be a repetition is held back, at most `LONGEST` characters. In most cases no text is held back.
    """

    __slots__ = ("_before", "_came", "_is_open")

    def __init__(self, before: str) -> None:
        self._before = before[-LONGEST:]
        self._came = ""
        self._is_open = len(self._before) >= SHORTEST

    def fed(self, text: str, *, last: bool = False) -> str:
        """Return the text that can be sent after *text* has arrived, without the repeated part. If *last* is true, no
        more text follows.
        """
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
        """Return whether the received text *came* could be the beginning of a longer repetition."""
        before = self._before
        place = before.find(came)
        while place >= 0:
            if len(before) - place >= max(SHORTEST, len(came) + 1):
                return True
            place = before.find(came, place + 1)
        return False

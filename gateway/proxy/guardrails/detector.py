"""Interface of detectors, which search a text while it is still growing.

Additional text cannot change a match that begins before the position `growing`, but can create or extend a later match.
Therefore text before the position `growing` can be sent, and only text after it is held back.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

CONTEXT_CHARS = 48
"""Number of sent characters that detectors can still inspect as context."""


@dataclass(frozen=True, slots=True)
class Match:
    """Match in a text, from index *start* up to but not including index *end*."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rest:
    """Continuation of unlimited length that can follow a match, such as the remaining characters of a key."""

    pattern: re.Pattern[str]
    """Pattern of the continuation, which can be empty. A search from any position within a continuation must find the
    same end.
    """
    look: int = 1
    """Number of characters that must follow before the end of a continuation is certain."""


class Detector(Protocol):
    """Detector for one kind of text, such as e-mail addresses."""

    @property
    def kind(self) -> str:
        """Return the kind of text to detect, such as `email`. In upper case, the kind replaces a match."""
        ...

    @property
    def rest(self) -> Rest | None:
        """Return the continuation that can follow a match, or None."""
        ...

    def find(self, text: str, start: int) -> Match | None:
        """Return the first match in *text* that begins at index *start* or later, or None. Earlier text is context."""
        ...

    def growing(self, text: str, start: int) -> int:
        """Return the first index from *start* on at which more text could create or extend a match, or `len(text)` if
        there is no such index.
        """
        ...


def _whole(found: "re.Match[str]") -> int:
    return len(found[0])


@dataclass(frozen=True, slots=True, eq=False)
class PatternDetector:
    """Detector that uses a regular expression without unbounded repetition, and a function that checks each match.

    The expression *pattern* matches as many characters as possible. The function *check* returns how many of these
    characters are a match, or 0 for no match. The expression *beginning* matches the end of a text if more text could
    complete or extend a match of *pattern*.
    """

    kind: str
    pattern: re.Pattern[str]
    beginning: re.Pattern[str]
    longest: int
    """Maximum length of a match in characters, plus one for the character that follows it."""
    check: Callable[["re.Match[str]"], int] = _whole
    hint: str | None = None
    """String that every match contains, or None. A text without this string is not searched."""
    rest: Rest | None = None

    def find(self, text: str, start: int) -> Match | None:
        if self.hint is not None and text.find(self.hint, start) < 0:
            return None
        search, check = self.pattern.search, self.check
        found = search(text, start)
        while found is not None:
            length = check(found)
            begins = found.start()
            if length:
                return Match(begins, begins + length)
            found = search(text, begins + 1)
        return None

    def growing(self, text: str, start: int) -> int:
        end = len(text)
        found = self.beginning.search(text, max(start, end - self.longest))
        return end if found is None else found.start()


def pattern_detector(
    kind: str,
    pattern: str,
    beginning: str,
    *,
    longest: int,
    check: Callable[["re.Match[str]"], int] = _whole,
    before: str = "",
    hint: str | None = None,
    rest: Rest | None = None,
    flags: re.RegexFlag = re.NOFLAG,
) -> PatternDetector:
    """Return a `PatternDetector`. The lookbehind expression *before* is put in front of *pattern* and *beginning*."""
    return PatternDetector(
        kind,
        re.compile(before + pattern, flags),
        re.compile(f"{before}(?:{beginning})\\Z", flags),
        longest,
        check,
        hint,
        rest,
    )

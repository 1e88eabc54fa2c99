"""The seam of detectors, which find something in a text that still grows.

More text cannot change a match that begins before `growing`, and can make or prolong one that begins later. So the text
before that place can be sent, and only the rest has to wait.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

CONTEXT_CHARS = 48
"""Characters already sent that detectors may look back on."""


@dataclass(frozen=True, slots=True)
class Match:
    """A found text, from *start* to *end*."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rest:
    """The part of unlimited length that may follow a match: the rest of a key."""

    pattern: re.Pattern[str]
    """Pattern of the rest; may be empty. From any place inside a rest it matches to the same end."""
    look: int = 1
    """Characters that must follow before the rest has ended."""


class Detector(Protocol):
    """A detector of one kind of text."""

    @property
    def kind(self) -> str:
        """Return the kind, e.g. ``email``; in upper case it replaces what was found."""
        ...

    @property
    def rest(self) -> Rest | None:
        """Return the part that may follow a match, or None."""
        ...

    def find(self, text: str, start: int) -> Match | None:
        """Return the first match in *text* that begins at *start* or later. Text before it is context."""
        ...

    def growing(self, text: str, start: int) -> int:
        """Return the first place from *start* on where more text could begin or prolong a match, or the end."""
        ...


def _whole(found: "re.Match[str]") -> int:
    return len(found[0])


@dataclass(frozen=True, slots=True, eq=False)
class PatternDetector:
    """A detector by a regular expression without unbounded repetition, and a check of what it matches.

    *pattern* takes as much as it can; *check* says how many characters of that are a match, 0 for none. *beginning*
    matches, up to the end of the text, whatever could become a match of *pattern* if the text went on, a match to the
    end included.
    """

    kind: str
    pattern: re.Pattern[str]
    beginning: re.Pattern[str]
    longest: int
    """Most characters of a match, and one that follows it."""
    check: Callable[["re.Match[str]"], int] = _whole
    hint: str | None = None
    """A text without this has no match."""
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
    """Return a `PatternDetector`; *before* is a lookbehind for both expressions."""
    return PatternDetector(
        kind,
        re.compile(before + pattern, flags),
        re.compile(f"{before}(?:{beginning})\\Z", flags),
        longest,
        check,
        hint,
        rest,
    )

"""What finds something in a text, while the text still grows.

A match is decided by what stands between its start and `growing`: until a place lies before that, more text could make
a match of what begins there, or a longer one. So what lies before it can go on, and only the rest has to wait.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

CONTEXT_CHARS = 48
"""Of what has gone on already, that detectors may look back on."""


@dataclass(frozen=True, slots=True)
class Match:
    """Of a detector: the text from *start* to *end*."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rest:
    """What follows a match as part of it, however long that is: the rest of a key."""

    pattern: re.Pattern[str]
    """Of what follows; may match nothing. It matches from any place of what it matches to the same end."""
    look: int = 1
    """Characters behind it that must be there before it has ended."""


class Detector(Protocol):
    """Finds one kind of thing."""

    @property
    def kind(self) -> str:
        """What it finds, e.g. ``email``; in upper case it stands in place of what was found."""
        ...

    @property
    def rest(self) -> Rest | None:
        """None: nothing follows a match as part of it."""
        ...

    def find(self, text: str, start: int) -> Match | None:
        """The first match in *text* that begins at *start* or later. What stands before is looked back on."""
        ...

    def growing(self, text: str, start: int) -> int:
        """The first place from *start* on where more text could begin or prolong a match; the end if there is none."""
        ...


def _whole(found: "re.Match[str]") -> int:
    return len(found[0])


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A detector by a regular expression without unbounded repetition, and a check of what it matches.

    *pattern* takes as much as it can; *check* says how many characters of that are a match, 0 for none. *beginning*
    matches, up to the end of the text, whatever could become a match of *pattern* if the text went on, a match to the
    end included.
    """

    kind: str
    pattern: re.Pattern[str]
    beginning: re.Pattern[str]
    longest: int
    """Characters of *pattern* at most, with one behind it that decides."""
    check: Callable[["re.Match[str]"], int] = _whole
    hint: str | None = None
    """Without this in the text there is no match."""
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


def shape(
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
) -> Shape:
    """A `Shape` from sources; *before* is what must, or must not, stand in front of either expression."""
    return Shape(
        kind,
        re.compile(before + pattern, flags),
        re.compile(f"{before}(?:{beginning})\\Z", flags),
        longest,
        check,
        hint,
        rest,
    )

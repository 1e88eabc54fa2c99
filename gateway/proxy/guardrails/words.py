"""Detectors of words and phrases that are given in the settings, and of patterns.

Patterns run in RE2, whose time grows with the text and with nothing else: no pattern, and no text, can make it wait.
They need the extra ``warmgate[guardrails]``. Words need nothing.
"""

import importlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.proxy.guardrails.detector import Match, Rest

MOST_BLANKS = 16
"""Most characters of white space between two words of a phrase."""
LONGEST_CHARS = 512
"""Most characters of a pattern's matches: so much of a text may wait."""

_words = re.compile(r"\w+")
_blanks = re.compile(r"\s+")
_gap = re.compile(rf"\s{{1,{MOST_BLANKS}}}").match
_first_word = _words.match


class Re2MissingError(ImportError):
    """A pattern is configured, and google-re2 is not installed."""


class UnboundedPatternError(ValueError):
    """A pattern's matches may be longer than can wait."""


class Words:
    """Finds words and phrases as whole words, in upper or lower case, with white space between. O(words)."""

    def __init__(self, terms: Iterable[str], *, kind: str = "word") -> None:
        """*terms* begin with a letter or a digit."""
        self._kind = kind
        self._by_first: dict[str, list[str]] = {}
        self._beginnings: set[str] = set()
        self._most_words = 1
        for term in {_blanks.sub(" ", term.strip()).lower() for term in terms}:
            first = _first_word(term)
            if first is None:
                raise ValueError(f"{term!r} does not begin with a letter or a digit")
            self._by_first.setdefault(first[0], []).append(term)
            self._most_words = max(self._most_words, len(_words.findall(term)))
            self._beginnings.update(term[:length] for length in range(1, len(term) + 1))
        for terms_of_first in self._by_first.values():
            terms_of_first.sort(key=len, reverse=True)
        self._longest = max(map(len, self._beginnings), default=1) + MOST_BLANKS * self._most_words
        """Most characters of a phrase in a text, with white space."""

    @property
    def kind(self) -> str:
        return self._kind

    @property
    def rest(self) -> Rest | None:
        return None

    def find(self, text: str, start: int) -> Match | None:
        for word in _words.finditer(text, start):
            begins = word.start()
            if begins == start and begins and _is_word(text[begins - 1]):
                continue  # the end of a word that has begun before
            for term in self._by_first.get(word[0].lower(), ()):
                end = _end_of(term, text, begins)
                if end is not None and not (end < len(text) and _is_word(text[end - 1]) and _is_word(text[end])):
                    return Match(begins, end)
        return None

    def growing(self, text: str, start: int) -> int:
        """Return the first of the last words that begin a term up to the end of the text."""
        window = max(start, len(text) - self._longest)
        begins = [word.start() for word in _words.finditer(text, window)][-self._most_words :]
        for place in begins:
            if place and _is_word(text[place - 1]):
                continue
            if _blanks.sub(" ", text[place:]).lower() in self._beginnings:
                return place
            if _blanks.sub(" ", text[place:]).lower().rstrip() in self._beginnings:
                return place
        return len(text)


class Patterns:
    """Finds what one of several regular expressions matches; the longest of its matches is known."""

    def __init__(self, patterns: Sequence[str], *, kind: str = "pattern") -> None:
        """Raises Re2MissingError, UnboundedPatternError, and ValueError for an invalid pattern."""
        self._kind = kind
        self._longest = 1 + max(longest_of(pattern) for pattern in patterns)
        self._patterns = [compiled(pattern) for pattern in patterns]

    @property
    def kind(self) -> str:
        return self._kind

    @property
    def rest(self) -> Rest | None:
        return None

    def find(self, text: str, start: int) -> Match | None:
        best: Match | None = None
        for pattern in self._patterns:
            found = pattern.search(text, start)
            while found is not None and found.start() == found.end() < len(text):
                found = pattern.search(text, found.end() + 1)
            if found is None or found.start() == found.end():
                continue
            match = Match(found.start(), found.end())
            if best is None or (match.start, -match.end) < (best.start, -best.end):
                best = match
        return best

    def growing(self, text: str, start: int) -> int:
        return min(len(text), max(start, len(text) - self._longest))


@dataclass(frozen=True, slots=True)
class Allowed:
    """Finds to ignore: texts in upper or lower case, and patterns that match the whole find."""

    texts: frozenset[str]
    patterns: tuple[Any, ...] = ()

    def __call__(self, text: str) -> bool:
        return text.lower() in self.texts or any(pattern.fullmatch(text) for pattern in self.patterns)


def compiled(pattern: str) -> Any:
    """*pattern* as RE2 has it.

    Raises:
        Re2MissingError: it is not installed.
        ValueError: it is no pattern, or one that takes more than linear time; the message says why.
    """
    try:
        re2 = importlib.import_module("re2")
    except ModuleNotFoundError as error:
        raise Re2MissingError("Patterns need google-re2: install warmgate[guardrails].") from error
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 8 * 2**20
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(f"it is not a valid RE2 pattern: {_in_words(error)}") from error


def longest_of(pattern: str) -> int:
    """Characters of the longest match of *pattern*.

    Raises:
        UnboundedPatternError: there is no longest one, or it is longer than `LONGEST_CHARS`.
        ValueError: it is no pattern.
    """
    try:
        most = re._parser.parse(pattern).getwidth()[1]  # type: ignore[attr-defined]  # noqa: SLF001  # not public
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"it is not a valid pattern: {error}") from error
    if most > LONGEST_CHARS:
        raise UnboundedPatternError(
            f"its matches may be longer than {LONGEST_CHARS} characters: write {{1,64}} where it has + or *"
        )
    return int(most)


def _in_words(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _end_of(term: str, text: str, start: int) -> int | None:
    """Return the end of *term* if *text* has it at *start*; a blank stands for any white space."""
    place = start
    for piece in term.split(" "):
        if place > start:
            blank = _gap(text, place)
            if blank is None:
                return None
            place = blank.end()
        end = place + len(piece)
        if text[place:end].lower() != piece:
            return None
        place = end
    return place


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"

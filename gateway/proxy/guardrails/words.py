"""Detect words, phrases and patterns that are listed in the settings.

Patterns run in the RE2 engine, whose time grows only linearly with the text, so that no pattern can block the gateway.
Patterns need the extra ``warmgate[guardrails]``. Words need no extra.
"""

import importlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.proxy.guardrails.detector import Match, Rest

MOST_BLANKS = 16
"""Maximum number of white-space characters between two words of a phrase."""
LONGEST_CHARS = 512
"""Maximum length in characters of the matches of a pattern. Up to this many characters of a stream can be held back."""

_words = re.compile(r"\w+")
_blanks = re.compile(r"\s+")
_gap = re.compile(rf"\s{{1,{MOST_BLANKS}}}").match
_first_word = _words.match


class Re2MissingError(ImportError):
    """Raised if a pattern is configured but google-re2 is not installed."""


class UnboundedPatternError(ValueError):
    """Raised if the matches of a pattern could be longer than the limit."""


class Words:
    """Detector for whole words and phrases. It ignores case and accepts any white space between words. The search takes
    time in proportion to the number of words.
    """

    def __init__(self, terms: Iterable[str], *, kind: str = "word") -> None:
        """Create a detector for *terms*. Each term must begin with a letter or a digit."""
        self._kind = kind
        self._by_first: dict[str, list[str]] = {}
        self._beginnings: set[str] = set()
        self._most_words = 1
        for term in {_blanks.sub(" ", term.strip()).lower() for term in terms}:
            first = _first_word(term)
            if first is None:
                raise ValueError(f"the term {term!r} does not begin with a letter or a digit")
            self._by_first.setdefault(first[0], []).append(term)
            self._most_words = max(self._most_words, len(_words.findall(term)))
            self._beginnings.update(term[:length] for length in range(1, len(term) + 1))
        for terms_of_first in self._by_first.values():
            terms_of_first.sort(key=len, reverse=True)
        self._longest = max(map(len, self._beginnings), default=1) + MOST_BLANKS * self._most_words
        """Maximum length in characters of a matching phrase in a text, including white space."""

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
        """Return the index of the first word from which the rest of the text could be the beginning of a term, or
        `len(text)`.
        """
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
    """Detector for text that matches one of several regular expressions. The maximum length of a match is known."""

    def __init__(self, patterns: Sequence[str], *, kind: str = "pattern") -> None:
        """Create a detector. Raise Re2MissingError, UnboundedPatternError, or ValueError for an invalid pattern."""
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
    """Matches to ignore, given as texts whose case does not matter, and as patterns for the whole match."""

    texts: frozenset[str]
    patterns: tuple[Any, ...] = ()

    def __call__(self, text: str) -> bool:
        return text.lower() in self.texts or any(pattern.fullmatch(text) for pattern in self.patterns)


def compiled(pattern: str) -> Any:
    """Return *pattern* in the form compiled by RE2.

    Raises:
        Re2MissingError: if google-re2 is not installed.
        ValueError: if the pattern is invalid, or needs more than linear time. The message gives the reason.
    """
    try:
        re2 = importlib.import_module("re2")
    except ModuleNotFoundError as error:
        raise Re2MissingError("Guardrail patterns require google-re2. Install warmgate[guardrails].") from error
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 8 * 2**20
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(f"the pattern is not valid in RE2: {_in_words(error)}") from error


def longest_of(pattern: str) -> int:
    """Return the length in characters of the longest match of *pattern*.

    Raises:
        UnboundedPatternError: if there is no maximum length, or it is longer than `LONGEST_CHARS`.
        ValueError: if the pattern is invalid.
    """
    try:
        most = re._parser.parse(pattern).getwidth()[1]  # type: ignore[attr-defined]  # noqa: SLF001  # not public
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"the pattern is not valid: {error}") from error
    if most > LONGEST_CHARS:
        raise UnboundedPatternError(
            f"matches of the pattern can be longer than {LONGEST_CHARS} characters. Write {{1,64}} instead of + or *"
        )
    return int(most)


def _in_words(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _end_of(term: str, text: str, start: int) -> int | None:
    """Return the index at which *term* ends if *text* contains it at *start*, or None. A space in *term* matches any
    white space.
    """
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

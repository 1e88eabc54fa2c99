"""Texts that are parts of one message. Its engine joins them, so what is looked for may span several of them.

1. vLLM puts a line end between parts, SGLang a blank, and many chat templates nothing: all three are tried.
2. Each part is also looked at alone. So together only what lies near their boundaries is looked at, `NEAR_CHARS` on
   either side: that bounds the cost, and no detector's match without its rest is half as long.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from gateway.proxy.guardrails.detector import CONTEXT_CHARS, Detector
from gateway.proxy.guardrails.filter import Text
from gateway.proxy.guardrails.redactor import Find, Scan

SEPARATORS: Final = ("", "\n", " ")
NEAR_CHARS: Final = 2048
REDACTED: Final = "[REDACTED]"
"""Placeholder for a text that a service changed in several parts."""
_FIRST_MARK = 0xF0000
"""The first character for private use beyond the basic plane: no detector takes it for a letter or a digit."""
_COMPARED_CHARS = 4096


def groups_of(texts: Sequence[Text]) -> list[list[int]]:
    """The places of the parts of each message that has several."""
    groups: dict[int, list[int]] = {}
    for place, text in enumerate(texts):
        if text.group:
            groups.setdefault(text.group, []).append(place)
    return [places for places in groups.values() if len(places) > 1]


class MarkedScan(Scan):
    """A scan that replaces a match by one character, so that a replacement is never a match itself."""

    __slots__ = ("_shown",)

    def __init__(self, scan: Scan) -> None:
        super().__init__(scan.detectors, replacement=scan.replacement, allows=scan.allows)
        self._shown = [scan.in_place_of(detector) for detector in scan.detectors]

    def in_place_of(self, detector: Detector) -> str:
        return chr(_FIRST_MARK + next(i for i, each in enumerate(self.detectors) if each is detector))

    def shown(self, text: str) -> str:
        """Return *text* with the public replacement of each match."""
        for number, shown in enumerate(self._shown):
            text = text.replace(chr(_FIRST_MARK + number), shown)
        return text


@dataclass(frozen=True, slots=True)
class Piece:
    """The end, the beginning or all of one part."""

    part: int
    start: int
    text: str = field(repr=False)


Window = list[Piece]


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut: text to remove from one part."""

    part: int
    start: int
    end: int
    mark: str


def windows(parts: Sequence[str]) -> Iterator[Window]:
    """Return the text near the boundaries of *parts*, from one long part to the next."""
    window: Window = []
    for number, text in enumerate(parts):
        if len(text) <= 2 * NEAR_CHARS:
            window.append(Piece(number, 0, text))
            continue
        window.append(Piece(number, 0, text[:NEAR_CHARS]))
        if len(window) > 1:
            yield window
        window = [Piece(number, len(text) - NEAR_CHARS, text[-NEAR_CHARS:])]
    if len(window) > 1:
        yield window


def cuts_of(scan: Scan, window: Window, separator: str, finds: Sequence[Find]) -> Iterator[Cut]:
    """Return the cuts in each part for *finds*, which were found in *window* joined by *separator*.

    A find inside one part, away from its boundaries, was found already, or is cut off by the window.
    """
    sizes = [len(piece.text) + len(separator) for piece in window]
    begins = [0, *accumulate(sizes)][:-1]
    for detector, match in finds:
        mark = scan.in_place_of(detector)
        first = bisect_right(begins, match.start) - 1
        covered: list[Cut] = []
        for number in range(first, len(window)):
            if begins[number] >= match.end:
                break
            piece, begin = window[number], begins[number]
            start, end = max(match.start - begin, 0), min(match.end - begin, len(piece.text))
            if start < end:
                covered.append(Cut(piece.part, piece.start + start, piece.start + end, mark))
        if len(covered) > 1 or _is_at_boundary(window, begins, first, match.start, match.end):
            yield from covered


def _is_at_boundary(window: Window, begins: Sequence[int], number: int, start: int, end: int) -> bool:
    """Return whether a match from *start* to *end* of the piece *number* depends on another part."""
    follows = number > 0 and start - begins[number] < CONTEXT_CHARS
    return follows or (number + 1 < len(window) and begins[number + 1] - end < CONTEXT_CHARS)


def cut(parts: Sequence[str], cuts: Sequence[Cut]) -> list[str]:
    """Return *parts* with marks in place of *cuts*, which do not overlap."""
    by_part: dict[int, list[Cut]] = {}
    for each in cuts:
        by_part.setdefault(each.part, []).append(each)
    left = list(parts)
    for part, own in by_part.items():
        pieces: list[str] = []
        at = 0
        for each in sorted(own, key=lambda each: each.start):
            pieces += (parts[part][at : each.start], each.mark)
            at = each.end
        left[part] = "".join([*pieces, parts[part][at:]])
    return left


class Together:
    """Texts for a service that returns each one changed; the parts of each message are also joined to one text."""

    def __init__(self, texts: Sequence[Text]) -> None:
        own = [text.said for text in texts]
        self._groups = groups_of(texts)
        self._own = own
        self.asked = [*own, *["\n".join([own[place] for place in places]) for places in self._groups]]
        """The texts, and after them the joined ones."""

    def placed(self, answered: Sequence[str]) -> tuple[str, ...]:
        """Return the changed texts for *answered*, the changed `asked`."""
        changed = list(answered[: len(self._own)])
        joined = zip(self._groups, self.asked[len(changed) :], answered[len(changed) :], strict=True)
        for places, before, after in joined:
            own = [changed[place] for place in places]
            if after not in (before, "\n".join(own)):
                is_own_changed = [changed[place] != self._own[place] for place in places]
                for place, text in zip(places, _spread(own, after, is_own_changed), strict=True):
                    changed[place] = text
        return tuple(changed)


def _spread(parts: Sequence[str], whole: str, is_changed: Sequence[bool]) -> list[str]:
    """*parts* so that, put together, they say no more than *whole*: all that differs goes to the first part that has
    some of it. Of parts that are changed already nothing comes back.
    """
    joined = "\n".join(parts)
    start = _common_chars(joined, whole)
    end = len(joined) - _common_chars(joined[start:][::-1], whole[start:][::-1])
    instead = whole[start : len(whole) - (len(joined) - end)]
    begins = [0, *accumulate(len(part) + 1 for part in parts)][:-1]
    differs = [max(begin, start) < min(begin + len(part), end) for begin, part in zip(begins, parts, strict=True)]
    if not any(differs):  # a text was added, or only a line end changed
        differs[bisect_right(begins, start) - 1] = True
    if any(each and changed for each, changed in zip(differs, is_changed, strict=True)):
        instead = REDACTED
    spread: list[str] = []
    for part, begin, each in zip(parts, begins, differs, strict=True):
        if not each:
            spread.append(part)
            continue
        first, last = max(start - begin, 0), min(end - begin, len(part))
        spread.append(part[:first] + instead + part[last:])
        instead = REDACTED
    return spread


def _common_chars(one: str, other: str) -> int:
    """Return the length of the common beginning. O(characters), in C."""
    at = 0
    most = min(len(one), len(other))
    while at < most and one[at : at + _COMPARED_CHARS] == other[at : at + _COMPARED_CHARS]:
        at += _COMPARED_CHARS
    at = min(at, most)
    while at < most and one[at] == other[at]:
        at += 1
    return at

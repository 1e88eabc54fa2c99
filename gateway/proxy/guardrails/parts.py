"""Check texts that are parts of one message. The engine joins them, so a match can extend over several parts.

1. vLLM joins parts with a line break, SGLang with a space, and many chat templates without a separator. All three
   separators are tried.
2. Each part is also checked on its own. Therefore only `NEAR_CHARS` characters on either side of a boundary are checked
   in the joined text, which limits the cost. No match is half as long, apart from its continuation.
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
"""Placeholder for a text that a service changed across several parts of a message."""
_FIRST_MARK = 0xF0000
"""First of the private-use Unicode characters that mark matches. Detectors never treat a private-use character as a
letter or digit.
"""
_COMPARED_CHARS = 4096


def groups_of(texts: Sequence[Text]) -> list[list[int]]:
    """Return the indexes of the parts of each message that has several parts."""
    groups: dict[int, list[int]] = {}
    for place, text in enumerate(texts):
        if text.group:
            groups.setdefault(text.group, []).append(place)
    return [places for places in groups.values() if len(places) > 1]


class MarkedScan(Scan):
    """Scan that puts a single marker character in place of each match, so that no replacement can be matched again."""

    __slots__ = ("_shown",)

    def __init__(self, scan: Scan) -> None:
        super().__init__(scan.detectors, replacement=scan.replacement, allows=scan.allows)
        self._shown = [scan.in_place_of(detector) for detector in scan.detectors]

    def in_place_of(self, detector: Detector) -> str:
        return chr(_FIRST_MARK + next(i for i, each in enumerate(self.detectors) if each is detector))

    def shown(self, text: str) -> str:
        """Return *text* with each marker character replaced by the public placeholder of its match."""
        for number, shown in enumerate(self._shown):
            text = text.replace(chr(_FIRST_MARK + number), shown)
        return text


@dataclass(frozen=True, slots=True)
class Piece:
    """End or beginning of a message part, or a whole part."""

    part: int
    start: int
    text: str = field(repr=False)


Window = list[Piece]


@dataclass(frozen=True, slots=True)
class Cut:
    """Range of text to remove from a message part, and the marker character for its place."""

    part: int
    start: int
    end: int
    mark: str


def windows(parts: Sequence[str]) -> Iterator[Window]:
    """Yield the text around the boundaries between *parts*. Each window reaches from one long part to the next."""
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
    """Yield the ranges to remove from each part for *finds*, which are the matches in *window* joined with *separator*.

    A match within one part and away from its boundaries is ignored. Such a match was found when the part was checked on
    its own, or is cut off by the window.
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
    """Return whether a match from *start* to *end* in the piece *number* could depend on the text of another part."""
    follows = number > 0 and start - begins[number] < CONTEXT_CHARS
    return follows or (number + 1 < len(window) and begins[number + 1] - end < CONTEXT_CHARS)


def cut(parts: Sequence[str], cuts: Sequence[Cut]) -> list[str]:
    """Return *parts* with each range in *cuts* replaced by its marker character. The ranges must not overlap."""
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
    """Texts for a service that returns changed texts. The parts of each message are also sent as one joined text."""

    def __init__(self, texts: Sequence[Text]) -> None:
        own = [text.said for text in texts]
        self._groups = groups_of(texts)
        self._own = own
        self.asked = [*own, *["\n".join([own[place] for place in places]) for places in self._groups]]
        """Texts to send to the service: first the single texts, and then the joined texts."""

    def placed(self, answered: Sequence[str]) -> tuple[str, ...]:
        """Return the changed single texts. *answered* are the service's versions of all texts that were sent."""
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
    """Return the message parts *parts*, changed so that their joined text contains no more than the redacted text
    *whole*. The changed text goes into the first part that it touches. Text that was removed from a part is never
    restored.
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
    """Return the length of the common beginning of both texts. O(characters), mostly in C."""
    at = 0
    most = min(len(one), len(other))
    while at < most and one[at : at + _COMPARED_CHARS] == other[at : at + _COMPARED_CHARS]:
        at += _COMPARED_CHARS
    at = min(at, most)
    while at < most and one[at] == other[at]:
        at += 1
    return at

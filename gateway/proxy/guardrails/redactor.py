"""Redact a text that arrives in pieces.

1. The result does not depend on how the text was split into pieces.
2. No part of a match is sent, and text that cannot belong to a match is not held back.
3. The leftmost match is redacted first. If several matches begin at one position, the longest is used. A match never
   overlaps text that was redacted earlier.
"""

import re
from collections.abc import Callable, Sequence

from gateway.proxy.guardrails.detector import CONTEXT_CHARS, Detector, Match, Rest

_string_mark = re.compile(r'"').finditer
_escape = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)


Find = tuple[Detector, Match]


class Scan:
    """Detectors of one guardrail and the replacement for matches. All texts share this object."""

    __slots__ = ("allows", "detectors", "replacement")

    def __init__(
        self,
        detectors: Sequence[Detector],
        *,
        replacement: str | None = None,
        allows: Callable[[str], bool] | None = None,
    ) -> None:
        """Create a scan that replaces each match with *replacement* or, if it is None, with the match's kind in
        brackets. The function *allows* returns true for matches to ignore.
        """
        self.detectors = tuple(detectors)
        self.replacement = replacement
        self.allows = allows

    def in_place_of(self, detector: Detector) -> str:
        return f"[{detector.kind.upper()}]" if self.replacement is None else self.replacement

    def growing(self, text: str, start: int) -> int:
        """Return the first index from *start* on at which more text could create or extend a match."""
        place = len(text)
        for detector in self.detectors:
            place = min(place, detector.growing(text, start))
        return place


class Redactor:
    """Redactor of a text. Each detector takes O(characters) time, and searches held characters again with each new
    piece.
    """

    __slots__ = ("_at", "_begin", "_finds", "_json", "_rest", "_scan", "_text", "found", "open_rest")

    def __init__(
        self, scan: Scan, *, is_json: bool = False, rest: Rest | None = None, finds: "list[Find] | None" = None
    ) -> None:
        """Create a redactor. If *is_json* is true, the redacted text is valid JSON, so a replacement for a number is
        put in quotation marks.

        If *rest* is given, the text may begin with the continuation of an earlier match. Matches and their positions
        are appended to *finds*.
        """
        self._scan = scan
        self._text = ""
        self._begin = 0  # place of its first character in the whole text
        self._at = 0  # before it stands what is out, to be looked back on
        self._rest = rest  # of the match that the text is still inside of
        self._finds = finds
        self._json = _Json() if is_json else None
        self.found = 0
        """Number of matches found so far."""
        self.open_rest: Rest | None = None
        """Continuation of the match at the end of the text, or None if the text ends outside a match."""

    def feed(self, text: str) -> str:
        """Add *text*, which is the next piece of the text, and return the characters that can be sent now."""
        self._text += text
        return self._advance(is_last=False)

    def end(self, text: str = "") -> str:
        """Add *text*, which is the last piece of the text, and return all characters that have not been sent."""
        self._text += text
        return self._advance(is_last=True)

    def _advance(self, *, is_last: bool) -> str:
        text, at, scan = self._text, self._at, self._scan
        out: list[str] = []
        if self._rest is not None:
            at = self._swallowed(at, self._rest, is_last=is_last)
        undecided = len(text) if is_last or self._rest is not None else scan.growing(text, at)
        upcoming: list[Match | None] = [_UNKNOWN] * len(scan.detectors)
        while self._rest is None:
            found = next_match(scan, text, at, upcoming)
            if found is None or found[1].start >= undecided:
                break
            detector, match = found
            if scan.allows is not None and scan.allows(text[match.start : match.end]):
                out.append(self._passing(at, match.end))
                at = match.end
            else:
                out.append(self._passing(at, match.start))
                out.append(self._taken_out(detector, match))
                at = match.end
                if self._finds is not None:
                    self._finds.append((detector, Match(self._begin + match.start, self._begin + at)))
                if detector.rest is not None:
                    at = self._swallowed(at, detector.rest, is_last=is_last)
            if at > undecided:
                undecided = len(text) if is_last else scan.growing(text, at)
        if self._rest is None and undecided > at:
            out.append(self._passing(at, undecided))
            at = undecided
        context = max(0, at - CONTEXT_CHARS)
        self._text, self._at, self._begin = text[context:], at - context, self._begin + context
        return "".join(out)

    def _swallowed(self, at: int, rest: Rest, *, is_last: bool) -> int:
        """Return the index to which the continuation of a match reaches in the text received so far."""
        found = rest.pattern.match(self._text, at)
        end = at if found is None else found.end()
        if is_last or end + rest.look <= len(self._text):
            self._rest = None
            self.open_rest = rest if is_last and end == len(self._text) else None
        else:
            self._rest = rest
            end = max(at, end - rest.look)
        if self._finds:
            detector, match = self._finds[-1]
            self._finds[-1] = detector, Match(match.start, self._begin + end)
        return end

    def _taken_out(self, detector: Detector, match: Match) -> str:
        self.found += 1
        changed = self._scan.in_place_of(detector)
        if self._json is None:
            return changed
        begun = self._json.escape_begun(self._text, match)
        return begun + (changed if self._json.in_string else f'"{changed}"')

    def _passing(self, start: int, end: int) -> str:
        text = self._text[start:end]
        if self._json is not None:
            self._json.pass_(text)
        return text


class _Json:
    """Parser state of the JSON text that has been sent: inside or outside a string."""

    __slots__ = ("_is_escaped", "in_string")

    def __init__(self) -> None:
        self.in_string = False
        self._is_escaped = False  # a backslash was the last

    def pass_(self, text: str) -> None:
        """Update the parser state with *text*, which is the next text to be sent."""
        if self._is_escaped and text:
            text = text[1:]
            self._is_escaped = False
        left = _escape.sub("", text)
        if left.endswith("\\"):
            self._is_escaped = True
        if sum(1 for _ in _string_mark(left)) % 2:
            self.in_string = not self.in_string

    def escape_begun(self, text: str, match: Match) -> str:
        """Return the characters of *match* that complete an escape sequence whose backslash has already been sent.
        Without them, the text would not be valid JSON.
        """
        if not self._is_escaped:
            return ""
        self._is_escaped = False
        found = _escape.match("\\" + text[match.start : match.end])
        return "" if found is None else found[0][1:]


def redacted(scan: Scan, text: str, *, is_json: bool = False) -> tuple[str, int]:
    """Return the whole text *text* redacted, and the number of matches."""
    redactor = Redactor(scan, is_json=is_json)
    changed = redactor.end(text)
    return changed, redactor.found


def matches(scan: Scan, text: str) -> list[tuple[Detector, Match]]:
    """Return the matches in *text* that `redacted` replaces, in order of position."""
    found: list[tuple[Detector, Match]] = []
    upcoming: list[Match | None] = [_UNKNOWN] * len(scan.detectors)
    at = 0
    while (each := next_match(scan, text, at, upcoming)) is not None:
        detector, match = each
        at = match.end
        if scan.allows is not None and scan.allows(text[match.start : match.end]):
            continue
        rest = None if detector.rest is None else detector.rest.pattern.match(text, at)
        at = at if rest is None else rest.end()
        found.append((detector, Match(match.start, at)))
    return found


def next_match(scan: Scan, text: str, at: int, upcoming: list[Match | None]) -> tuple[Detector, Match] | None:
    """Return the leftmost match from index *at* on, or None. *upcoming* caches the next match of each detector."""
    best: tuple[Detector, Match] | None = None
    for i, detector in enumerate(scan.detectors):
        match = upcoming[i]
        if match is not None and match.start < at:
            match = upcoming[i] = detector.find(text, at)
        if match is None:
            continue
        if best is None or (match.start, -match.end) < (best[1].start, -best[1].end):
            best = detector, match
    return best


_UNKNOWN = Match(-1, -1)
"""Placeholder for a match that has not been searched for yet. It begins before every index."""

"""Limits in response headers, under OpenAI's names and in its form, so that its SDKs honour them.

``x-ratelimit-{limit,remaining,reset}-{requests,tokens}``, durations such as ``12ms``, ``1s``, ``6m0s``:
https://platform.openai.com/docs/guides/rate-limits. ``retry-after-ms`` and ``x-should-retry`` are read by its SDKs.
"""

import math
from collections.abc import Sequence
from typing import Final

from gateway.quota.limit import Level
from gateway.quota.scope import Scoped
from gateway.teams.limits import Measure

Headers = tuple[tuple[bytes, bytes], ...]

SDK_PATIENCE_S = 120.0
"""openai-python waits as long as it is told, up to this; after a longer one it would ask again at once."""

DIGIT: Final = 1e-3
"""Of a unit: what rounding may have taken from a whole one. A token that is there but for this is there."""
DIGIT_MS: Final = 5e-4
"""The same of a wait; stores grant what is this much too early."""

_BELOW_A_SECOND = (b"0s", *(b"%dms" % ms for ms in range(1, 1000)))
"""Durations of so many milliseconds."""

_REQUESTS: frozenset[Measure] = frozenset({"requests_per_minute"})
_TOKENS: frozenset[Measure] = frozenset(
    {"tokens_per_minute", "input_tokens_per_minute", "output_tokens_per_minute", "tokens_per_day"}
)


class RateHeads:
    """Writes the headers of one plan."""

    __slots__ = ("_kinds", "_parts", "_told")

    def __init__(self, scoped: Sequence[Scoped]) -> None:
        """In the order of the levels that are to come."""
        self._kinds = [
            _Kind(name, places, scoped)
            for name, measures in ((b"requests", _REQUESTS), (b"tokens", _TOKENS))
            if (places := [i for i, each in enumerate(scoped) if each.measure in measures])
        ]
        self._parts: list[Headers] = [() for _ in self._kinds]
        self._told: Headers = ()

    def of(self, levels: tuple[Level, ...]) -> Headers:
        """Of requests and of tokens, each as the limit has it that has least left: more than that is not granted.

        Empty where neither is limited. About 0.3 us for each of the two, and less where it says what it said last.
        """
        changed = False
        for place, kind in enumerate(self._kinds):
            part = kind.of(levels)
            if part is not self._parts[place]:
                self._parts[place] = part
                changed = True
        if changed:
            told: Headers = ()
            for part in self._parts:
                told += part
            self._told = told
        return self._told


class _Kind:
    """The three headers of requests, or of tokens."""

    __slots__ = ("_binding", "_limits", "_ms", "_number", "_places", "_remaining", "_reset", "_told")

    def __init__(self, name: bytes, places: Sequence[int], scoped: Sequence[Scoped]) -> None:
        self._places = list(places)
        self._limits = {i: (b"x-ratelimit-limit-" + name, b"%d" % scoped[i].limit.amount) for i in places}
        self._remaining = b"x-ratelimit-remaining-" + name
        self._reset = b"x-ratelimit-reset-" + name
        # What was told last, and is told again as long as it is true: of limits that are hardly used, most of the time.
        self._binding = self._number = self._ms = -1
        self._told: Headers = ()

    def of(self, levels: tuple[Level, ...]) -> Headers:
        binding = self._places[0]
        level = levels[binding]
        for place in self._places:
            other = levels[place]
            if other.remaining < level.remaining:
                binding, level = place, other
        number, ms = int(level.remaining + DIGIT), _milliseconds(level.reset_s)
        if number != self._number or ms != self._ms or binding != self._binding:
            self._number, self._ms, self._binding = number, ms, binding
            self._told = (
                self._limits[binding],
                (self._remaining, str(number).encode("ascii")),  # compiled, b"%d" would take twice as long
                (self._reset, _told(ms)),
            )
        return self._told


def duration(seconds: float) -> bytes:
    """``0s``, ``12ms``, ``1.5s``, ``6m0s``, ``23h59m59.25s``: rounded up to the millisecond."""
    return _told(_milliseconds(seconds))


def _milliseconds(seconds: float) -> int:
    ms = math.ceil(seconds * 1000.0 - DIGIT_MS)
    return ms if ms > 0 else 0  # noqa: FURB136  # max() is slower


def _told(ms: int) -> bytes:
    if ms < 1000:
        return _BELOW_A_SECOND[ms]
    whole, ms = divmod(ms, 1000)
    minutes, whole = divmod(whole, 60)
    rest = b"%d.%03d" % (whole, ms) if ms else b"%d" % whole
    text = rest.rstrip(b"0") + b"s" if ms else rest + b"s"
    if not minutes:
        return text
    hours, minutes = divmod(minutes, 60)
    return b"%dh%dm%b" % (hours, minutes, text) if hours else b"%dm%b" % (minutes, text)


def refusal_headers(wait_s: float, *, again: bool) -> Headers:
    """Of a 429: when there is room again, and whether it is worth asking *again* then.

    An infinite wait is not told. One that SDKs do not have the patience for is told, but not to be waited for by them.
    """
    should_retry = (b"x-should-retry", b"true" if again and wait_s <= SDK_PATIENCE_S else b"false")
    if math.isinf(wait_s):
        return (should_retry,)
    ms = max(1, math.ceil(wait_s * 1000.0 - DIGIT_MS))
    return ((b"retry-after", b"%d" % -(-ms // 1000)), (b"retry-after-ms", b"%d" % ms), should_retry)

"""Headers about rate limits in responses, with OpenAI's names and formats, so that OpenAI's SDKs obey them.

The headers are ``x-ratelimit-{limit,remaining,reset}-{requests,tokens}``, with durations such as ``12ms``, ``1s``,
``6m0s``: https://platform.openai.com/docs/guides/rate-limits. OpenAI's SDKs also read ``retry-after-ms`` and
``x-should-retry``.
"""

import math
from collections.abc import Sequence
from typing import Final

from gateway.tenancy.quota.limit import Level
from gateway.tenancy.quota.scope import Scoped
from gateway.tenancy.teams.limits import Measure

Headers = tuple[tuple[bytes, bytes], ...]

SDK_PATIENCE_S = 120.0
"""Maximum seconds for which openai-python waits before a retry. If the requested wait is longer, it retries at once."""

DIGIT: Final = 1e-3
"""Rounding error of a unit. A token that lacks at most this much is reported as available."""
DIGIT_MS: Final = 5e-4
"""Rounding error of a wait in seconds. Stores grant requests that arrive too early by at most this much."""

_BELOW_A_SECOND = (b"0s", *(b"%dms" % ms for ms in range(1, 1000)))
"""Texts of all durations below a second, indexed by milliseconds."""

_REQUESTS: frozenset[Measure] = frozenset({"requests_per_minute"})
_TOKENS: frozenset[Measure] = frozenset(
    {"tokens_per_minute", "input_tokens_per_minute", "output_tokens_per_minute", "tokens_per_day"}
)


class RateHeads:
    """Rate limit headers for one plan."""

    __slots__ = ("_kinds", "_last", "_parts")

    def __init__(self, scoped: Sequence[Scoped]) -> None:
        """Create the headers. *scoped* are the limits of the plan, in the order of their levels."""
        self._kinds = [
            _Kind(name, places, scoped)
            for name, measures in ((b"requests", _REQUESTS), (b"tokens", _TOKENS))
            if (places := [i for i, each in enumerate(scoped) if each.measure in measures])
        ]
        self._parts: list[Headers] = [() for _ in self._kinds]
        self._last: Headers = ()

    def headers_for(self, levels: tuple[Level, ...]) -> Headers:
        """Return the headers for requests and for tokens. Each is about the limit with the smallest remaining amount.

        The result is empty if neither requests nor tokens are limited. Each of the two takes about 0.3 us, or less if
        nothing changed.
        """
        changed = False
        for place, kind in enumerate(self._kinds):
            part = kind.headers_for(levels)
            if part is not self._parts[place]:
                self._parts[place] = part
                changed = True
        if changed:
            headers: Headers = ()
            for part in self._parts:
                headers += part
            self._last = headers
        return self._last


class _Kind:
    """Names of the three rate limit headers for requests, or for tokens."""

    __slots__ = ("_binding", "_last", "_limits", "_ms", "_number", "_places", "_remaining", "_reset")

    def __init__(self, name: bytes, places: Sequence[int], scoped: Sequence[Scoped]) -> None:
        self._places = list(places)
        self._limits = {i: (b"x-ratelimit-limit-" + name, b"%d" % scoped[i].limit.amount) for i in places}
        self._remaining = b"x-ratelimit-remaining-" + name
        self._reset = b"x-ratelimit-reset-" + name
        # The last result, which is reused while it is right: most of the time, for limits that are hardly used.
        self._binding = self._number = self._ms = -1
        self._last: Headers = ()

    def headers_for(self, levels: tuple[Level, ...]) -> Headers:
        binding = self._places[0]
        level = levels[binding]
        for place in self._places:
            other = levels[place]
            if other.remaining < level.remaining:
                binding, level = place, other
        number, ms = int(level.remaining + DIGIT), _milliseconds(level.reset_s)
        if number != self._number or ms != self._ms or binding != self._binding:
            self._number, self._ms, self._binding = number, ms, binding
            self._last = (
                self._limits[binding],
                (self._remaining, str(number).encode("ascii")),  # compiled, b"%d" would take twice as long
                (self._reset, _text(ms)),
            )
        return self._last


def duration(seconds: float) -> bytes:
    """Return *seconds*, rounded up to the millisecond, in formats such as ``0s``, ``12ms``, ``1.5s``, ``6m0s`` and
    ``23h59m59.25s``.
    """
    return _text(_milliseconds(seconds))


def _milliseconds(seconds: float) -> int:
    ms = math.ceil(seconds * 1000.0 - DIGIT_MS)
    return ms if ms > 0 else 0  # noqa: FURB136  # max() is slower


def _text(ms: int) -> bytes:
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
    """Return the headers of a 429 response: the wait until the request fits, and whether to try *again* then.

    An infinite wait is left out. A wait longer than `SDK_PATIENCE_S` is included, but SDKs are asked not to retry.
    """
    should_retry = (b"x-should-retry", b"true" if again and wait_s <= SDK_PATIENCE_S else b"false")
    if math.isinf(wait_s):
        return (should_retry,)
    ms = max(1, math.ceil(wait_s * 1000.0 - DIGIT_MS))
    return ((b"retry-after", b"%d" % -(-ms // 1000)), (b"retry-after-ms", b"%d" % ms), should_retry)

"""Rate limits of a fallback target: requests and tokens per minute, with a slow start."""

from collections.abc import Iterable
from typing import Self

import msgspec

from gateway.backends.fallbacks.bucket import Bucket
from gateway.backends.fallbacks.slow_start import SlowStart


class RateLimits(msgspec.Struct, frozen=True):
    """Rate limits per minute. A limit of None means that the rate is unlimited."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    """Maximum number of prompt and output tokens per minute."""
    ramp_s: float | None = None
    """Seconds in which the usable rate doubles after a pause, starting at a tenth. If None, the full rate always
    applies.
    """

    @classmethod
    def lowest(cls, rates: Iterable[Self]) -> Self:
        """Return the rate limits that satisfy all of *rates*: the lowest amounts and the slowest start."""

        def least(values: list[float | None]) -> float | None:
            return min([value for value in values if value is not None], default=None)

        said = list(rates)
        slowest = [each.ramp_s for each in said if each.ramp_s is not None]
        return cls(
            least([each.requests_per_minute for each in said]),
            least([each.tokens_per_minute for each in said]),
            max(slowest, default=None),
        )


class Allowance:
    """Rate limiter that reserves the largest possible use of a request, and later replaces it with the actual use.

    It counts like AWS's quotas (user guide, quotas-token-burndown). The prompt and ``maxTokens`` are counted when the
    request starts, and tokens that were not generated are returned. A time before the latest one counts as the latest.
    """

    def __init__(self, rates: RateLimits) -> None:
        self._rates = RateLimits()
        self._now = 0.0
        self._slow_start = SlowStart(None)
        self._requests: Bucket | None = None
        self._tokens: Bucket | None = None
        self.set_rates(rates)

    def set_rates(self, rates: RateLimits) -> None:
        """Replace the rate limits with *rates*. Past use still counts."""
        if rates == self._rates:
            return
        self._rates = rates
        self._slow_start.set_doubling_s(rates.ramp_s)
        self._requests = _bucket(self._requests, rates.requests_per_minute, least_burst=1.0)
        self._tokens = _bucket(self._tokens, rates.tokens_per_minute)

    def share(self, now: float) -> float:
        """Return the fraction of the rate limits that is usable at *now*, from 0 to 1."""
        if self._requests is None and self._tokens is None:
            return 1.0
        return self._slow_start.share(max(now, self._now))

    def wait_s(self, tokens: float, now: float) -> float | None:
        """Return the seconds until a request with *tokens* is allowed, or None if never. Each call counts as use."""
        self._turn(now)
        waits = [
            0.0 if self._requests is None else self._requests.wait_s(1.0),
            0.0 if self._tokens is None else self._tokens.wait_s(tokens),
        ]
        found = [wait_s for wait_s in waits if wait_s is not None]
        return max(found) if len(found) == len(waits) else None

    def reserve(self, tokens: float, now: float) -> None:
        """Reserve *tokens* for a request. Call this only directly after `wait_s` has returned 0."""
        self._turn(now)
        if self._requests is not None:
            self._requests.grant(1.0)
        if self._tokens is not None:
            self._tokens.grant(tokens)

    def settle(self, reserved: float, used: float, now: float) -> None:
        """Replace the *reserved* tokens of a request with those that it *used*. The request still counts."""
        self._now = max(now, self._now)
        if self._tokens is not None:
            self._tokens.turn(self.share(now), self._now)
            self._tokens.give_back(reserved - used)

    def _turn(self, now: float) -> None:
        self._now = max(now, self._now)
        self._slow_start.asked(self._now)
        share = self.share(self._now)
        for bucket in (self._requests, self._tokens):
            if bucket is not None:
                bucket.turn(share, self._now)


def _bucket(former: Bucket | None, amount: float | None, *, least_burst: float = 0.0) -> Bucket | None:
    if amount is None:
        return None
    if former is None:
        return Bucket(amount, least_burst=least_burst)
    former.set_amount(amount)
    return former

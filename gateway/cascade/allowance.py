"""How much may be asked of a target: requests and tokens a minute, slowly at first."""

from collections.abc import Iterable
from typing import Self

import msgspec

from gateway.cascade.bucket import Bucket
from gateway.cascade.ramp import Ramp


class Rates(msgspec.Struct, frozen=True):
    """What somebody allows; None: no limit."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    """Of prompt and output together."""
    ramp_s: float | None = None
    """In which both double after a pause, from a tenth on; None: whole at once."""

    @classmethod
    def lowest(cls, rates: Iterable[Self]) -> Self:
        """What all of *rates* allow."""

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
    """Reserves before a request is sent what it may use at most, and settles to what it used.

    As AWS counts its quotas (user guide, quotas-token-burndown): prompt and ``maxTokens`` are taken at once, and what
    was not generated is given back. Times that go back are taken for the latest.
    """

    def __init__(self, rates: Rates) -> None:
        self._rates = Rates()
        self._now = 0.0
        self._ramp = Ramp(None)
        self._requests: Bucket | None = None
        self._tokens: Bucket | None = None
        self.take(rates)

    def take(self, rates: Rates) -> None:
        """Have *rates* from now on; what was used before is not forgotten."""
        if rates == self._rates:
            return
        self._rates = rates
        self._ramp.take(rates.ramp_s)
        self._requests = _bucket(self._requests, rates.requests_per_minute, least_burst=1.0)
        self._tokens = _bucket(self._tokens, rates.tokens_per_minute)

    def share(self, now: float) -> float:
        """Of the rates, that may be used at *now*."""
        if self._requests is None and self._tokens is None:
            return 1.0
        return self._ramp.share(max(now, self._now))

    def wait_s(self, tokens: float, now: float) -> float | None:
        """Until one request with *tokens* would be let in; 0: now; None: never. It counts as asked for."""
        self._turn(now)
        waits = [
            0.0 if self._requests is None else self._requests.wait_s(1.0),
            0.0 if self._tokens is None else self._tokens.wait_s(tokens),
        ]
        found = [wait_s for wait_s in waits if wait_s is not None]
        return max(found) if len(found) == len(waits) else None

    def reserve(self, tokens: float, now: float) -> None:
        """Take room for one request with *tokens*. Whether there is any was asked just before."""
        self._turn(now)
        if self._requests is not None:
            self._requests.grant(1.0)
        if self._tokens is not None:
            self._tokens.grant(tokens)

    def settle(self, reserved: float, used: float, now: float) -> None:
        """A request for which *reserved* tokens were taken used *used*. It was a request all the same."""
        self._now = max(now, self._now)
        if self._tokens is not None:
            self._tokens.turn(self.share(now), self._now)
            self._tokens.give_back(reserved - used)

    def _turn(self, now: float) -> None:
        self._now = max(now, self._now)
        self._ramp.asked(self._now)
        share = self.share(self._now)
        for bucket in (self._requests, self._tokens):
            if bucket is not None:
                bucket.turn(share, self._now)


def _bucket(former: Bucket | None, amount: float | None, *, least_burst: float = 0.0) -> Bucket | None:
    if amount is None:
        return None
    if former is None:
        return Bucket(amount, least_burst=least_burst)
    former.take(amount)
    return former

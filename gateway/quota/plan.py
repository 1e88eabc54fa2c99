"""Which limits a caller's requests to one model meet, and what they take of each: worked out once, not per request."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final, Literal, get_args

from cache_index.value import Value
from gateway.quota.limit import Charge, Limit
from gateway.quota.output_length import Lengths
from gateway.quota.rate_headers import RateHeads
from gateway.quota.scope import Scoped
from gateway.quota.seats import BOTH, COMPLETION, DAY, MONTH, MOST, NEVER, ONE, PROMPT, USD, Counted, Seats
from gateway.teams.caller import Caller
from gateway.teams.limits import Limits, Measure

MEASURES: tuple[Measure, ...] = get_args(Measure)
MOST_PLANS = 65_536
"""Pairs of callers and models that are remembered; each is worked out again when it is needed again."""
FIRST_REQUESTS: Final = 5.0
"""Of a small limit of requests that may come at once: a tenth of 10 a minute would refuse the second."""
PARTS: Final = 1_000_000.0
"""Of a token that are counted: weights make fractions."""

_COUNTS: dict[Measure, int] = {
    "requests_per_minute": ONE,
    "input_tokens_per_minute": PROMPT,
    "output_tokens_per_minute": COMPLETION,
    "tokens_per_minute": BOTH,
    "concurrent": ONE,
    "tokens_per_day": MOST,
    "usd_per_day": USD,
    "usd_per_month": USD,
}

_PERIODS: dict[Measure, int] = {"tokens_per_day": DAY, "usd_per_day": DAY, "usd_per_month": MONTH}
"""Others have none."""

CostUsd = Callable[[float, float, float], float]
"""US dollars for prompt tokens, those of them that were cached, and completion tokens: `Price.cost_usd`."""


@dataclass(frozen=True, slots=True, eq=False)
class Metered:
    """What limits need to know of a model. Made once when the settings change, the same object for all requests.

    Equal to itself only.
    """

    name: str
    """Configured name."""
    cost_usd: CostUsd
    max_output_tokens: int | None = None
    """Of one answer; None: not known."""
    most_usd: CostUsd | None = None
    """What whoever may answer costs at most; None: as *cost_usd*."""


class Tokens(Value):
    """Counted, not weighted."""

    __match_args__ = ("prompt", "cached", "completion")
    __slots__ = __match_args__

    def __init__(self, prompt: float, cached: float, completion: float) -> None:
        self.prompt = prompt
        self.cached = cached
        """Of the prompt."""
        self.completion = completion


class Calendar:
    """Days and months of a time zone. Both change at a local midnight, which may be 23 or 25 hours after the last."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._from = 0.0
        # As `look` left them.
        self.day = self.month = ""
        self.day_ends = self.month_ends = 0.0

    def look(self, now: float) -> None:
        """Have `day` and `month` be those of *now*, seconds since 1970, as are `day_ends` and `month_ends`."""
        if not self._from <= now < self.day_ends:
            self._turn(now)

    def periods(self, now: float) -> tuple[tuple[str, str, str], tuple[float, float, float]]:
        """Names of no period, the day and the month, ``("", "2026-11-21", "2026-11")``, and the seconds until they end.

        *now* is seconds since 1970.
        """
        self.look(now)
        return ("", self.day, self.month), (0.0, self.day_ends - now, self.month_ends - now)

    def _turn(self, now: float) -> None:
        midnight = datetime.fromtimestamp(now, self._zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        first = midnight.replace(day=1)
        # Arithmetic of local times: the difference in seconds follows from what the zone says of both.
        next_first = (first + timedelta(days=32)).replace(day=1)
        self.day, self.month = midnight.strftime("%Y-%m-%d"), midnight.strftime("%Y-%m")
        self._from = midnight.timestamp()
        self.day_ends = (midnight + timedelta(days=1)).timestamp()
        self.month_ends = next_first.timestamp()


class Plan:
    """The limits of one caller for one model, in the order of their charges: the key's before the team's."""

    __slots__ = (
        *("_cached_weight", "_calendar", "_has_periods"),
        *("counted", "counts_most", "counts_usd", "heads", "lengths", "limits", "scoped", "seats", "unreserved"),
    )

    def __init__(
        self,
        scoped: Sequence[Scoped],
        *,
        cached_weight: float,
        calendar: Calendar,
        unreserved_minutes: float = math.inf,
    ) -> None:
        """*unreserved_minutes*: see `Plans`."""
        self.scoped = tuple(scoped)
        self.limits = tuple(each.limit for each in scoped)
        self.heads = RateHeads(scoped)
        self._cached_weight = cached_weight
        self._calendar = calendar
        self.counted = [
            Counted(each.limit, _COUNTS[each.measure], _PERIODS.get(each.measure, NEVER)) for each in scoped
        ]
        self.counts_usd = any(each.what == USD for each in self.counted)
        """Whether it matters what a request costs."""
        self.counts_most = any(each.what in {USD, MOST} for each in self.counted)
        """Whether it matters how long an answer can be at most."""
        per_minute = [each.limit.amount for each in self.counted if each.what in {COMPLETION, BOTH}]
        self.unreserved = unreserved_minutes * min(per_minute, default=math.inf)
        """Tokens of answers that its team may have on their way beyond what is reserved for them."""
        self._has_periods = any(each.period for each in self.counted)
        self.seats: Seats | None = None
        """Where all of it is counted; None: not known yet, or not by this process."""
        self.lengths: Lengths | None = None
        """Of the answers that its caller's team gets from its model; None: not looked up yet."""

    def charges(
        self,
        tokens: Tokens,
        cost_usd: float,
        now: float,
        *,
        most_completion: float = -1.0,
        most_usd: float = 0.0,
    ) -> list[Charge]:
        """What one request takes that is expected to use, or has used, *tokens* and *cost_usd*.

        Where it may use more, *most_completion* says what its answers have at most, and *most_usd* what all of it costs
        then: budgets are charged with that. *now*, in seconds since 1970, says which day it is. Cached tokens weigh
        less than others in all limits of tokens; in US dollars they are worth what the price says.
        """
        completion = tokens.completion
        prompt, both = self.weighted(tokens.prompt, tokens.cached, completion)
        most_both, likely_usd = both, cost_usd
        if most_completion >= 0.0:
            _, most_both = self.weighted(tokens.prompt, tokens.cached, most_completion)
            cost_usd = most_usd
        calendar = self._calendar
        if self._has_periods:
            calendar.look(now)
        charges = []
        for each in self.counted:
            what = each.what
            if what == ONE:
                charges.append(each.one)
                continue
            if what == PROMPT:
                charges.append(Charge(each.limit, prompt))
                continue
            if what in {COMPLETION, BOTH}:
                charges.append(Charge(each.limit, completion if what == COMPLETION else both))
                continue
            units, likely = (cost_usd, likely_usd) if what == USD else (most_both, both)
            if each.period == DAY:
                charges.append(Charge(each.limit, units, calendar.day, calendar.day_ends - now, likely))
            else:
                charges.append(Charge(each.limit, units, calendar.month, calendar.month_ends - now, likely))
        return charges

    def weighted(self, prompt: float, cached: float, completion: float) -> tuple[float, float]:
        """What limits of the tokens that are read count, and limits of all tokens."""
        if not cached:
            return prompt, prompt + completion
        prompt -= cached * (1.0 - self._cached_weight)
        # round() takes three times as long.
        return int(prompt * PARTS + 0.5) / PARTS, int((prompt + completion) * PARTS + 0.5) / PARTS

    def look(self, seats: Seats, now: float) -> None:
        """Have *seats*, its own, know what day it is *now*, in seconds since 1970."""
        if self._has_periods:
            calendar = self._calendar
            calendar.look(now)
            seats.day, seats.day_left_s = calendar.day, calendar.day_ends - now
            seats.month, seats.month_left_s = calendar.month, calendar.month_ends - now

    def place_of(self, limit: str) -> int | None:
        """Among its limits, of the one with the id *limit*; None: it has it not."""
        for place, each in enumerate(self.limits):
            if each.id == limit:
                return place
        return None

    def nothing(self, now: float) -> list[Charge]:
        """Of a request that is to cost nothing at all."""
        names, left_s = self._calendar.periods(now)
        return [Charge(each.limit, 0.0, names[each.period], left_s[each.period]) for each in self.counted]


class Plans:
    """The plan of every caller and model. What changes is another object, and has another plan."""

    def __init__(
        self, *, burst: float, cached_weight: float, calendar: Calendar, unreserved_minutes: float = math.inf
    ) -> None:
        """*burst* is the share of a minute's amount that may be used at once, above 0 and at most 1.

        *unreserved_minutes*: of a limit of tokens per minute so many minutes' amounts may be on their way to a team
        beyond what was reserved.
        """
        self._burst = burst
        self._unreserved_minutes = unreserved_minutes
        self._cached_weight = cached_weight
        self._calendar = calendar
        # Both are equal to themselves only: comparing all that a caller is would take longer than the rest.
        self._plans: dict[Caller, dict[Metered, Plan]] = {}
        self._size = 0

    def __len__(self) -> int:
        """Plans that are remembered."""
        return self._size

    def of(self, caller: Caller, model: Metered) -> Plan:
        of_caller = self._plans.get(caller)
        if of_caller is not None:
            plan = of_caller.get(model)
            if plan is not None:
                return plan
        return self._made(caller, model)

    def _made(self, caller: Caller, model: Metered) -> Plan:
        if self._size >= MOST_PLANS:
            self._plans.clear()
            self._size = 0
        plan = Plan(
            self._scoped(caller, model),
            cached_weight=self._cached_weight,
            calendar=self._calendar,
            unreserved_minutes=self._unreserved_minutes,
        )
        self._plans.setdefault(caller, {})[model] = plan
        self._size += 1
        return plan

    def _scoped(self, caller: Caller, model: Metered) -> list[Scoped]:
        key, team = caller.key, caller.team
        scopes: list[tuple[Literal["key", "team"], str, str | None, Limits | None]] = [
            ("key", key.id, None, key.limits),
            ("key", key.id, model.name, key.model_limits.get(model.name)),
            ("team", team.name, None, team.limits),
            ("team", team.name, model.name, team.model_limits.get(model.name)),
        ]
        scoped = []
        for scope, name, of_model, limits in scopes:
            for measure in MEASURES:
                amount = None if limits is None else getattr(limits, measure)
                if amount is not None:
                    within = f"{scope}:{name}" if of_model is None else f"{scope}:{name}/model:{of_model}"
                    limit = self._limit(f"{within}/{measure}", measure, float(amount))
                    scoped.append(Scoped(limit, measure, scope, name, of_model))
        return scoped

    def _limit(self, id_: str, measure: Measure, amount: float) -> Limit:
        if measure == "concurrent":
            return Limit(id_, "concurrent", amount)
        if measure in _PERIODS:
            return Limit(id_, "period", amount)
        # At least one token: less would say that there is no room where there is some.
        least = FIRST_REQUESTS if measure == "requests_per_minute" else 1.0
        return Limit(id_, "rate", amount, burst=min(amount, max(least, amount * self._burst)))

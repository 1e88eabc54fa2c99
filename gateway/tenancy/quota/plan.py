"""Plans with the limits of one caller for one model, and the charges of a request. Plans are looked up once, not for
every request.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final, get_args

from cache_index.value import Value
from gateway.protocol.session_identity import unscoped_session
from gateway.tenancy.quota.limit import (
    BOTH,
    COMPLETION,
    DAY,
    MONTH,
    MOST,
    NEVER,
    ONE,
    PROMPT,
    USD,
    Charge,
    Limit,
    PlanLimit,
)
from gateway.tenancy.quota.meters import PlanMeters
from gateway.tenancy.quota.output_length import Lengths
from gateway.tenancy.quota.rate_headers import RateHeads
from gateway.tenancy.quota.scope import Scope, Scoped, limit_id
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.limit_raise import raised_amount
from gateway.tenancy.teams.limits import Limits, Measure

MEASURES: tuple[Measure, ...] = get_args(Measure)
MOST_PLANS = 65_536
"""Maximum number of plans to keep, one for each caller and model. Above it, all plans are dropped and built again when
needed.
"""
MOST_SPECIAL_PLANS: Final = 2048
"""Maximum number of plans to keep for single end users and sessions, and with raised limits, each with at most about
12 kB. Above it, all of these plans are dropped and built again when needed.
"""
FIRST_REQUESTS: Final = 5.0
"""Minimum burst of a request limit. Without it, a limit of 10 per minute with a burst of a tenth would refuse the
second request.
"""
PARTS: Final = 1_000_000.0
"""Number of parts of a token in which tokens are counted. Weighted cached tokens are not whole numbers."""

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
"""Periods of those measures that have a period."""

CostUsd = Callable[[float, float, float], float]
"""Function that returns the cost in US dollars from the number of prompt tokens, how many of them were cached, and the
number of completion tokens.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Metered:
    """Properties of a model that limits need. Until the settings change, all requests share one object.

    Objects are compared by identity.
    """

    name: str
    """Configured name of the model."""
    cost_usd: CostUsd
    max_output_tokens: int | None = None
    """Maximum number of tokens in one answer, or None if it is unknown."""
    most_usd: CostUsd | None = None
    """Price of the most expensive backend that can answer, or None if it is equal to *cost_usd*."""


class Tokens(Value):
    """Token counts of a request before weights are applied."""

    __match_args__ = ("prompt", "cached", "completion")
    __slots__ = __match_args__

    def __init__(self, prompt: float, cached: float, completion: float) -> None:
        self.prompt = prompt
        self.cached = cached
        """Number of prompt tokens that were in the cache. *prompt* includes them."""
        self.completion = completion


class Calendar:
    """Calendar of days and months in a time zone. A day begins at local midnight, and can be 23 or 25 hours long."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._from = 0.0
        # Set by `update`.
        self.day = self.month = ""
        self.day_ends = self.month_ends = 0.0

    def update(self, now: float) -> None:
        """Set `day`, `month`, `day_ends` and `month_ends` for the time *now* in seconds since 1970."""
        if not self._from <= now < self.day_ends:
            self._turn(now)

    def periods(self, now: float) -> tuple[tuple[str, str, str], tuple[float, float, float]]:
        """Return two tuples: the period names ``("", "2026-11-21", "2026-11")``, and the seconds until each period
        ends. The first item of each is for limits without a period.

        *now* is in seconds since 1970.
        """
        self.update(now)
        return ("", self.day, self.month), (0.0, self.day_ends - now, self.month_ends - now)

    def _turn(self, now: float) -> None:
        midnight = datetime.fromtimestamp(now, self._zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        first = midnight.replace(day=1)
        # Arithmetic on local times; the zone then decides how many seconds lie between them.
        next_first = (first + timedelta(days=32)).replace(day=1)
        self.day, self.month = midnight.strftime("%Y-%m-%d"), midnight.strftime("%Y-%m")
        self._from = midnight.timestamp()
        self.day_ends = (midnight + timedelta(days=1)).timestamp()
        self.month_ends = next_first.timestamp()


class Plan:
    """Limits of one caller for one model. Limits of the key come first, then those of the end user, of the session, of
    the project and of the team. Charges have the same order.
    """

    __slots__ = (
        *("_cached_weight", "_calendar", "_has_periods"),
        *(
            "counts_most",
            "counts_usd",
            "ends_at",
            "heads",
            "lengths",
            "limits",
            "meters",
            "plan_limits",
            "scoped",
            "unreserved",
        ),
    )

    def __init__(
        self,
        scoped: Sequence[Scoped],
        *,
        cached_weight: float,
        calendar: Calendar,
        unreserved_minutes: float = math.inf,
    ) -> None:
        """Create the plan. *unreserved_minutes* has the same meaning as in `Plans`."""
        self.scoped = tuple(scoped)
        self.limits = tuple(each.limit for each in scoped)
        self.heads = RateHeads(scoped)
        self._cached_weight = cached_weight
        self._calendar = calendar
        self.plan_limits = [
            PlanLimit(each.limit, _COUNTS[each.measure], _PERIODS.get(each.measure, NEVER)) for each in scoped
        ]
        self.counts_usd = any(each.what == USD for each in self.plan_limits)
        """Whether any limit of the plan counts the cost of requests."""
        self.counts_most = any(each.what in {USD, MOST} for each in self.plan_limits)
        """Whether any limit of the plan depends on the longest possible answer."""
        per_minute = [
            each.limit.amount
            for each, owner in zip(self.plan_limits, scoped, strict=True)
            if each.what in {COMPLETION, BOTH} and owner.scope in {"key", "team"}
        ]
        self.unreserved = unreserved_minutes * min(per_minute, default=math.inf)
        """Maximum number of answer tokens beyond their reservations that the team can have in flight."""
        self.ends_at = math.inf
        """Time at which a raise of a limit ends, so that another plan applies, in seconds since 1970."""
        self._has_periods = any(each.period for each in self.plan_limits)
        self.meters: PlanMeters | None = None
        """Meters of all limits in the plan, or None if they are not looked up yet or if another process counts the
        limits.
        """
        self.lengths: Lengths | None = None
        """Recent answer lengths of the model for the caller's team, or None if they are not looked up yet."""

    def charges(
        self,
        tokens: Tokens,
        cost_usd: float,
        now: float,
        *,
        most_completion: float = -1.0,
        most_usd: float = 0.0,
    ) -> list[Charge]:
        """Return the charges of a request that has used, or that will probably use, *tokens* and *cost_usd*.

        If the request may use more, *most_completion* is the length of the longest possible answer and *most_usd* is
        its cost. Budgets are charged with these values. *now*, in seconds since 1970, determines the day. In token
        limits, cached tokens have a lower weight. In limits in US dollars, the price of cached tokens applies.
        """
        completion = tokens.completion
        prompt, both = self.weighted(tokens.prompt, tokens.cached, completion)
        most_both, likely_usd = both, cost_usd
        if most_completion >= 0.0:
            _, most_both = self.weighted(tokens.prompt, tokens.cached, most_completion)
            cost_usd = most_usd
        calendar = self._calendar
        if self._has_periods:
            calendar.update(now)
        charges = []
        for each in self.plan_limits:
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
        """Return the units to charge to limits of prompt tokens and to limits of all tokens."""
        if not cached:
            return prompt, prompt + completion
        prompt -= cached * (1.0 - self._cached_weight)
        # round() takes three times as long.
        return int(prompt * PARTS + 0.5) / PARTS, int((prompt + completion) * PARTS + 0.5) / PARTS

    def set_periods(self, meters: PlanMeters, now: float) -> None:
        """Set the current day and month of *meters*, which belong to the plan, at *now* in seconds since 1970."""
        if self._has_periods:
            calendar = self._calendar
            calendar.update(now)
            meters.day, meters.day_left_s = calendar.day, calendar.day_ends - now
            meters.month, meters.month_left_s = calendar.month, calendar.month_ends - now

    def place_of(self, limit: str) -> int | None:
        """Return the position of the limit with the id *limit*, or None if the plan does not contain this limit."""
        for place, each in enumerate(self.limits):
            if each.id == limit:
                return place
        return None

    def nothing(self, now: float) -> list[Charge]:
        """Return the charges of a request that costs nothing."""
        names, left_s = self._calendar.periods(now)
        return [Charge(each.limit, 0.0, names[each.period], left_s[each.period]) for each in self.plan_limits]


class Plans:
    """Plans of all callers and models. A caller or model that changes becomes a new object and gets a new plan."""

    def __init__(
        self, *, burst: float, cached_weight: float, calendar: Calendar, unreserved_minutes: float = math.inf
    ) -> None:
        """Create an empty collection. *burst* (above 0, at most 1) is the share of a minute's limit usable at once.

        *unreserved_minutes* bounds the tokens in flight of a team beyond its reservations. The bound is the amount of
        each token limit for this number of minutes.
        """
        self._burst = burst
        self._unreserved_minutes = unreserved_minutes
        self._cached_weight = cached_weight
        self._calendar = calendar
        # Both are equal to themselves only: comparing all fields of a caller would take longer than the rest.
        self._plans: dict[Caller, dict[Metered, Plan]] = {}
        self._size = 0
        self._special: dict[tuple[Caller, Metered, str | None, str | None], Plan] = {}
        """Plans with limits of single end users and sessions, and plans with raised limits, by end user and session."""

    def __len__(self) -> int:
        """Return the number of plans in the cache."""
        return self._size + len(self._special)

    def plan_for(
        self,
        caller: Caller,
        model: Metered,
        user: str | None = None,
        session: str | None = None,
        *,
        now: float = math.inf,
    ) -> Plan:
        """Return the limits of a request of *caller* for *model*.

        *user* is the end user of the request, and *session* is its session as `scoped_session` returns it. None means
        that the request names none. *now*, in seconds since 1970, determines which temporary raises of limits apply.
        """
        if caller.limits_users or caller.limits_sessions or caller.raises:
            user = (user or "") if caller.limits_users else None
            return self._special_plan(caller, model, user, session if caller.limits_sessions else None, now)
        of_caller = self._plans.get(caller)
        if of_caller is not None:
            plan = of_caller.get(model)
            if plan is not None:
                return plan
        return self._made(caller, model)

    def _special_plan(self, caller: Caller, model: Metered, user: str | None, session: str | None, now: float) -> Plan:
        place = (caller, model, user, session)
        plan = self._special.get(place)
        if plan is None or plan.ends_at <= now < math.inf:
            if len(self._special) >= MOST_SPECIAL_PLANS:
                self._special.clear()
            plan = self._special[place] = self._plan(caller, model, user, session, now)
            plan.ends_at = min((each.until for each in caller.raises if now < each.until), default=math.inf)
        return plan

    def _made(self, caller: Caller, model: Metered) -> Plan:
        if self._size >= MOST_PLANS:
            self._plans.clear()
            self._size = 0
        plan = self._plan(caller, model, None, None, math.inf)
        self._plans.setdefault(caller, {})[model] = plan
        self._size += 1
        return plan

    def _plan(self, caller: Caller, model: Metered, user: str | None, session: str | None, now: float) -> Plan:
        return Plan(
            self._scoped(caller, model, user, session, now),
            cached_weight=self._cached_weight,
            calendar=self._calendar,
            unreserved_minutes=self._unreserved_minutes,
        )

    def _scoped(
        self, caller: Caller, model: Metered, user: str | None, session: str | None, now: float
    ) -> list[Scoped]:
        key, team, project = caller.key, caller.team, caller.project or ""
        scopes: list[tuple[Scope, str, str | None, Limits | None]] = [
            ("key", key.id, None, key.limits),
            ("key", key.id, model.name, key.model_limits.get(model.name)),
            ("user", user or "", None, None if user is None else team.user_limits),
            ("session", unscoped_session(session, team.name) or "", None, team.session_limits if session else None),
            ("project", project, None, team.project_limits.get(project)),
            ("team", team.name, None, team.limits),
            ("team", team.name, model.name, team.model_limits.get(model.name)),
        ]
        scoped = []
        for scope, name, of_model, limits in scopes:
            for measure in MEASURES:
                amount = None if limits is None else getattr(limits, measure)
                if amount is not None:
                    if caller.raises:
                        amount = raised_amount(
                            *(float(amount), caller.raises),
                            scope=scope,
                            name=name,
                            model=of_model,
                            measure=measure,
                            now=now,
                        )
                    limit = self._limit(limit_id(scope, name, of_model, measure), measure, float(amount))
                    scoped.append(Scoped(limit, measure, scope, name, of_model))
        return scoped

    def _limit(self, id_: str, measure: Measure, amount: float) -> Limit:
        if measure == "concurrent":
            return Limit(id_, "concurrent", amount)
        if measure in _PERIODS:
            return Limit(id_, "period", amount)
        # At least one token: with less, the limit would report no room where there is some.
        least = FIRST_REQUESTS if measure == "requests_per_minute" else 1.0
        return Limit(id_, "rate", amount, burst=min(amount, max(least, amount * self._burst)))

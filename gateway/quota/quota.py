"""What the proxy knows of limits: reserve before a request, settle after it."""

import math
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo

from gateway.errors import QuotaSpent, RateLimited, StoreAway
from gateway.ledger.entry import Draft, Entry
from gateway.ledger.record import Outcome
from gateway.quota.limit import Charge, Granted, Refused
from gateway.quota.output_length import OutputLengths
from gateway.quota.plan import Metered, Plan, Plans, Tokens
from gateway.quota.quota_store import QuotaStore
from gateway.quota.rate_headers import DIGIT, Headers, duration, refusal_headers
from gateway.teams.caller import Caller

AWAY_RETRY_S = 1.0
"""When the store may be there again; to ask in vain costs little."""

LostEntry = Callable[[Tokens], Entry]
"""Makes the entry of a request that is never settled, of the tokens that it reserved."""


class Ask:
    """What is known of a request before it is served."""

    __slots__ = ("cached_tokens", "choices", "generates", "max_tokens", "prompt_tokens")

    def __init__(
        self,
        prompt_tokens: float,
        cached_tokens: float = 0.0,
        max_tokens: int | None = None,
        choices: int = 1,
        *,
        generates: bool = True,
    ) -> None:
        self.prompt_tokens = prompt_tokens
        """Exact where there is a tokenizer, else an estimate."""
        self.cached_tokens = cached_tokens
        """Of them, that are expected to be cached; 0: it reserves as if none were."""
        self.max_tokens = max_tokens
        """What the caller set for one answer."""
        self.choices = choices
        """How many answers it wants."""
        self.generates = generates
        """False: nothing is generated, as of embeddings."""


class Reservation:
    """To be settled once, however the request ends; once more has no effect. Should it never be, it is a `Draft`."""

    __slots__ = ("_lost", "choices", "expected", "headers", "id", "is_settled", "model", "plan", "team")

    def __init__(
        self,
        id: str,  # noqa: A002
        team: str,
        model: str,
        *,
        plan: Plan,
        expected: Tokens,
        choices: int,
        lost: LostEntry,
    ) -> None:
        self.id = id
        """Empty: nothing limits the caller, and nothing is reserved."""
        self.team = team
        self.model = model
        """Configured name."""
        self.plan = plan
        self.expected = expected
        """What was reserved, before it was weighted."""
        self.choices = choices
        self.headers: Headers = ()
        """``x-ratelimit-*``, for whichever answer the request gets."""
        self.is_settled = False
        self._lost = lost

    def __call__(self) -> Entry:
        return self._lost(self.expected)


class Quota:
    """All limits of all callers, behind one store."""

    def __init__(
        self,
        store: QuotaStore,
        plans: Plans,
        *,
        lengths: OutputLengths,
        clock: Callable[[], float],
        time_zone: tzinfo,
    ) -> None:
        """*clock* gives seconds since 1970. It tells which day it is; all else is counted by the store's clock."""
        self._store = store
        self._plans = plans
        self._lengths = lengths
        self._clock = clock
        self._time_zone = time_zone
        # Unique for ever, as a random one for each request would be, which costs a system call.
        self._prefix = f"{uuid.uuid4().hex}-"
        self._number = 0

    @property
    def is_degraded(self) -> bool:
        """Whether limits are held by less than the store, which is away."""
        return self._store.is_degraded

    def reserve_at_once(self, caller: Caller, model: Metered, ask: Ask, lost: LostEntry) -> Reservation | None:
        """As `reserve`, where nothing has to be waited for; None: something has to be, and nothing is reserved."""
        reservation = self._begun(caller, model, ask, lost)
        if not reservation.id:
            return reservation
        plan, now = reservation.plan, self._clock()
        charges = _charges(plan, model, reservation.expected, now)
        decision = self._store.reserve_at_once(reservation.team, reservation.id, charges, reservation)
        if decision is None:
            return None
        if isinstance(decision, Granted):
            reservation.headers = plan.heads.of(decision.levels)
            return reservation
        if math.isinf(decision.wait_s) and _is_guessed(reservation.expected, ask):
            return None  # a smaller guess may fit
        raise self._refusal(plan, charges, decision, now)

    async def reserve(self, caller: Caller, model: Metered, ask: Ask, lost: LostEntry) -> Reservation:
        """Take what the request is expected to use of every limit of *caller*, or nothing of any.

        How long an answer will be is a guess where the caller sets no less. A guess alone makes no request impossible:
        where it is more than a limit ever gives, what the limit has for the answer is taken, in a second round trip.

        Raises:
            RateLimited: a limit has no room now. Headers and message say when it has; its `refused_by` names it.
            QuotaSpent: a budget is spent, or the request takes more than a limit ever gives.
            StoreAway: the store cannot be reached, and the settings say not to go on without it.
        """
        reservation = self._begun(caller, model, ask, lost)
        if not reservation.id:
            return reservation
        plan, expected, now = reservation.plan, reservation.expected, self._clock()
        charges = _charges(plan, model, expected, now)
        try:
            decision = await self._store.reserve(reservation.team, reservation.id, charges, reservation)
            if not isinstance(decision, Granted) and math.isinf(decision.wait_s) and _is_guessed(expected, ask):
                fitting = _fitting(plan, model, expected, charges, decision, now=now)
                if fitting is not None:
                    reservation.expected, charges = fitting, _charges(plan, model, fitting, now)
                    decision = await self._store.reserve(reservation.team, reservation.id, charges, reservation)
        except StoreAway as fault:
            fault.retry_after_s = AWAY_RETRY_S if fault.retry_after_s is None else fault.retry_after_s
            raise
        if isinstance(decision, Granted):
            reservation.headers = plan.heads.of(decision.levels)
            return reservation
        raise self._refusal(plan, charges, decision, now)

    def settle(self, reservation: Reservation, outcome: Outcome, used: Tokens, cost_usd: float, entry: Draft) -> None:
        """Count what was *used* instead of what was reserved, and book *entry*, which says the same.

        A request that ``failed`` without any use gets all of it back, its place among the requests of a minute too.
        """
        if reservation.is_settled:
            return
        reservation.is_settled = True
        if outcome == "ok" and used.completion > 0.0:
            self._lengths.learn(reservation.team, reservation.model, used.completion, choices=reservation.choices)
        if not reservation.id:
            self._store.book(reservation.team, entry)
            return
        now = self._clock()
        plan = reservation.plan
        if outcome == "failed" and used.prompt + used.completion <= 0.0:
            charges = plan.nothing(now)
        else:
            charges = plan.charges(used, cost_usd, now)
        self._store.settle(reservation.team, reservation.id, charges, entry)

    def _begun(self, caller: Caller, model: Metered, ask: Ask, lost: LostEntry) -> Reservation:
        """What is to be reserved."""
        plan, team, choices = self._plans.of(caller, model), caller.team_name, ask.choices
        completion = 0.0
        if ask.generates:
            completion = self._lengths.expected(
                team, model.name, asked=ask.max_tokens, cap=model.max_output_tokens, choices=choices
            )
        id_ = ""
        if plan.limits:
            self._number += 1
            id_ = self._prefix + str(self._number)
        expected = Tokens(ask.prompt_tokens, ask.cached_tokens, completion)
        return Reservation(id_, team, model.name, plan=plan, expected=expected, choices=choices, lost=lost)

    def _refusal(self, plan: Plan, charges: Sequence[Charge], refused: Refused, now: float) -> RateLimited | QuotaSpent:
        scoped, charge = plan.scoped[refused.binding], charges[refused.binding]
        level = refused.levels[refused.binding]
        limit = scoped.limit
        left = level.remaining if scoped.measure.startswith("usd") else math.floor(level.remaining + DIGIT)
        asked = f"Limit {number(limit.amount)}, Remaining {number(left)}, Requested {number(charge.units)}."
        never = math.isinf(refused.wait_s)
        error: RateLimited | QuotaSpent
        if never:
            lower = "Lower max_tokens or shorten the prompt" if limit.kind == "rate" else "Ask for a higher budget"
            error = QuotaSpent(
                f"Request too large for {scoped.text}: {asked} It can never fit. {lower}.", refused_by=scoped.label
            )
        elif limit.kind == "period":
            ends = datetime.fromtimestamp(now + charge.period_left_s, self._time_zone)
            error = QuotaSpent(
                f"You exceeded the quota of {scoped.text}: {asked} It begins anew at "
                f"{ends:%Y-%m-%d %H:%M} ({self._time_zone}).",
                refused_by=scoped.label,
            )
        else:
            error = RateLimited(
                f"Rate limit reached for {scoped.text}: {asked} Please try again in "
                f"{duration(refused.wait_s).decode('ascii')}.",
                counted="tokens" if "tokens" in scoped.measure else "requests",
                refused_by=scoped.label,
            )
        again = isinstance(error, RateLimited)
        error.headers = (*plan.heads.of(refused.levels), *refusal_headers(refused.wait_s, again=again))
        return error


def _charges(plan: Plan, model: Metered, tokens: Tokens, now: float) -> list[Charge]:
    cost_usd = model.cost_usd(tokens.prompt, tokens.cached, tokens.completion) if plan.counts_usd else 0.0
    return plan.charges(tokens, cost_usd, now)


def _is_guessed(expected: Tokens, ask: Ask) -> bool:
    """Whether the caller's own `max_tokens` is not what *expected* comes from."""
    return ask.generates and (ask.max_tokens is None or expected.completion < ask.max_tokens * ask.choices)


def _fitting(
    plan: Plan, model: Metered, expected: Tokens, charges: Sequence[Charge], refused: Refused, *, now: float
) -> Tokens | None:
    """*expected* with an answer so short that every limit could give it; None: there is no room for an answer at all.

    A rate could, with a full bucket, give its amount; a period what is left of it.
    """
    completion = expected.completion
    without = _charges(plan, model, Tokens(expected.prompt, expected.cached, 0.0), now)
    for charge, least, level in zip(charges, without, refused.levels, strict=True):
        of_answer = charge.units - least.units  # in proportion to its length
        if of_answer > 0.0:
            most = level.remaining if charge.limit.kind == "period" else charge.limit.amount
            completion = min(completion, expected.completion * (most - least.units) / of_answer)
    whole = math.floor(completion)
    return Tokens(expected.prompt, expected.cached, float(whole)) if whole >= 1 else None


def number(units: float) -> str:
    """``50000``, ``0.25``: at most six decimals."""
    return f"{units:.6f}".rstrip("0").rstrip(".")

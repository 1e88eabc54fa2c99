"""What the proxy knows of limits: reserve before a request, settle after it."""

import math
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo

from gateway.errors import QuotaSpent, RateLimited, StoreAway
from gateway.ledger.entry import Draft, Entry
from gateway.ledger.record import Outcome
from gateway.quota.limit import Charge, Granted, Refused
from gateway.quota.output_length import Lengths, OutputLengths
from gateway.quota.plan import CostUsd, Metered, Plan, Plans, Tokens
from gateway.quota.quota_store import QuotaStore
from gateway.quota.rate_headers import DIGIT, Headers, duration, refusal_headers
from gateway.quota.seats import Seats, Taken
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


class Reservation(Taken):
    """To be settled once, however the request ends; once more has no effect. Should it never be, it is a `Draft`."""

    __slots__ = (
        *("_expected_cached", "_expected_completion", "_expected_prompt", "_lost", "_prefix"),
        *("choices", "headers", "is_settled", "lengths", "model", "number", "plan", "team"),
    )

    def __init__(
        self,
        prefix: str,
        number: int,
        *,
        team: str,
        model: str,
        plan: Plan,
        lengths: Lengths,
        choices: int,
        lost: LostEntry,
    ) -> None:
        super().__init__()
        self._prefix = prefix
        self.number = number
        """0: nothing limits the caller, and nothing is reserved."""
        self.team = team
        self.model = model
        """Configured name."""
        self.plan = plan
        self.lengths = lengths
        self.choices = choices
        self.headers: Headers = ()
        """``x-ratelimit-*``, for whichever answer the request gets."""
        self.is_settled = False
        self._expected_prompt = self._expected_cached = self._expected_completion = 0.0
        self._lost: LostEntry | None = lost

    @property
    def id(self) -> str:
        """Unique for ever."""
        return self._prefix + str(self.number)

    @property
    def expected(self) -> Tokens:
        """What was reserved, before it was weighted."""
        return Tokens(self._expected_prompt, self._expected_cached, self._expected_completion)

    def expect(self, prompt: float, cached: float, completion: float) -> None:
        """So many tokens are to be reserved."""
        self._expected_prompt = prompt
        self._expected_cached = cached
        self._expected_completion = completion

    def weigh(self, cost_usd: CostUsd | None) -> None:
        """Put what is expected into units of limits; *cost_usd* None: none of them counts money."""
        prompt, cached, completion = self._expected_prompt, self._expected_cached, self._expected_completion
        self.prompt, self.both = self.plan.weighted(prompt, cached, completion)
        self.completion = completion
        if cost_usd is not None:
            self.usd = cost_usd(prompt, cached, completion)

    def __call__(self) -> Entry:
        assert self._lost is not None, "it is settled, and will never be lost"
        return self._lost(self.expected)

    def end(self) -> None:
        """It is settled. Who would have told of a loss is let go: that one knows this, and both would be garbage."""
        self.is_settled = True
        self._lost = None


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
        if not reservation.number:
            return reservation
        plan = reservation.plan
        if plan.seats is not None and self._took(reservation, model, plan.seats):
            return reservation
        now = self._clock()
        expected = reservation.expected
        charges = _charges(plan, model, expected, now)
        decision = self._store.reserve_at_once(reservation.team, reservation.id, charges, reservation)
        if decision is None:
            return None
        if isinstance(decision, Granted):
            reservation.headers = plan.heads.of(decision.levels)
            plan.seats = self._store.seats(reservation.id, plan.counted)
            return reservation
        if math.isinf(decision.wait_s) and _is_guessed(expected, ask):
            return None  # a smaller guess may fit
        raise self._refusal(plan, charges, decision, now)

    def _took(self, reservation: Reservation, model: Metered, seats: Seats) -> bool:
        """Whether it could be taken by numbers."""
        plan, now = reservation.plan, seats.desk.now()
        plan.look(seats, now)
        reservation.seats = seats
        reservation.weigh(model.cost_usd if plan.counts_usd else None)
        granted = seats.desk.take(reservation, now)
        if granted is None:
            reservation.seats = None
            return False
        reservation.headers = plan.heads.of(granted.levels)
        return True

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
        if not reservation.number:
            return reservation
        plan, expected, now = reservation.plan, reservation.expected, self._clock()
        charges = _charges(plan, model, expected, now)
        try:
            decision = await self._store.reserve(reservation.team, reservation.id, charges, reservation)
            if not isinstance(decision, Granted) and math.isinf(decision.wait_s) and _is_guessed(expected, ask):
                fitting = _fitting(plan, model, expected, charges, decision, now=now)
                if fitting is not None:
                    reservation.expect(fitting.prompt, fitting.cached, fitting.completion)
                    charges = _charges(plan, model, fitting, now)
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
        reservation.end()
        if outcome == "ok" and used.completion > 0.0:
            self._lengths.learn(reservation.lengths, used.completion, choices=reservation.choices)
        if not reservation.number:
            self._store.book(reservation.team, entry)
            return
        plan, seats = reservation.plan, reservation.seats
        is_nothing = outcome == "failed" and used.prompt + used.completion <= 0.0
        if seats is not None:
            prompt, both = plan.weighted(used.prompt, used.cached, used.completion)
            seats.desk.give_back(
                reservation,
                entry,
                one=0.0 if is_nothing else 1.0,
                prompt=prompt,
                completion=used.completion,
                both=both,
                usd=0.0 if is_nothing else cost_usd,
            )
            return
        now = self._clock()
        charges = plan.nothing(now) if is_nothing else plan.charges(used, cost_usd, now)
        self._store.settle(reservation.team, reservation.id, charges, entry)

    def _begun(self, caller: Caller, model: Metered, ask: Ask, lost: LostEntry) -> Reservation:
        """What is to be reserved."""
        plan, choices = self._plans.of(caller, model), ask.choices
        lengths = plan.lengths
        if lengths is None or lengths.is_forgotten:
            lengths = plan.lengths = self._lengths.of(caller.team_name, model.name)
        number = 0
        if plan.limits:
            number = self._number = self._number + 1
        reservation = Reservation(
            self._prefix,
            number,
            team=caller.team_name,
            model=model.name,
            plan=plan,
            lengths=lengths,
            choices=choices,
            lost=lost,
        )
        completion = 0.0
        if ask.generates:
            completion = self._lengths.expected(
                lengths, asked=ask.max_tokens, cap=model.max_output_tokens, choices=choices
            )
        reservation.expect(ask.prompt_tokens, ask.cached_tokens, completion)
        return reservation

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

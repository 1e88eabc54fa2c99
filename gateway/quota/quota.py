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
from gateway.quota.plan import Metered, Plan, Plans, Tokens
from gateway.quota.quota_store import QuotaStore
from gateway.quota.rate_headers import DIGIT, Headers, duration, refusal_headers
from gateway.quota.seats import Seats, Taken
from gateway.teams.caller import Caller

AWAY_RETRY_S = 1.0
"""When the store may be there again; to ask in vain costs little."""

MOST_OUTPUT_TOKENS = 16_384
"""Of an answer that neither its request nor its model limits."""
UNRESERVED_WAIT_S = 1.0
"""When an answer will have come to its end cannot be known; asking once a second harms nobody."""

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


class Exposure:
    """What is on its way to one team beyond what was reserved, through this gateway."""

    __slots__ = ("shortened", "tokens")

    def __init__(self) -> None:
        self.tokens = 0.0
        """That answers may have beyond what limits of a minute expect of them."""
        self.shortened = 0
        """Requests that may use more than was left of a budget."""


class Reservation(Taken):
    """To be settled once, however the request ends; once more has no effect. Should it never be, it is a `Draft`."""

    __slots__ = (
        *("_expected_cached", "_expected_completion", "_expected_prompt", "_lost", "_most_completion", "_prefix"),
        *("asked", "choices", "exposure", "headers", "is_settled", "is_shortened", "lengths", "model", "number"),
        *("metered", "plan", "team", "unreserved"),
    )

    def __init__(
        self,
        prefix: str,
        number: int,
        *,
        team: str,
        model: Metered,
        plan: Plan,
        lengths: Lengths,
        exposure: Exposure,
        asked: int | None,
        choices: int,
        lost: LostEntry,
    ) -> None:
        super().__init__()
        self._prefix = prefix
        self.number = number
        """0: nothing limits the caller, and nothing is reserved."""
        self.team = team
        self.metered = model
        self.model = model.name
        """Configured name."""
        self.plan = plan
        self.lengths = lengths
        self.exposure = exposure
        self.asked = asked
        self.choices = choices
        self.unreserved = 0.0
        """What it adds to *exposure*."""
        self.is_shortened = False
        """It may use more than was left of a budget, all of which it has reserved."""
        self.headers: Headers = ()
        """``x-ratelimit-*``, for whichever answer the request gets."""
        self.is_settled = False
        self._expected_prompt = self._expected_cached = self._expected_completion = self._most_completion = 0.0
        self._lost: LostEntry | None = lost

    @property
    def id(self) -> str:
        """Unique for ever."""
        return self._prefix + str(self.number)

    @property
    def expected(self) -> Tokens:
        """What limits of a minute have reserved, before it was weighted, and what is likely."""
        return Tokens(self._expected_prompt, self._expected_cached, self._expected_completion)

    @property
    def most_completion(self) -> float:
        """Tokens of its answers that budgets have reserved: no fewer than are expected."""
        return self._most_completion

    def expect(self, prompt: float, cached: float, completion: float, most_completion: float) -> None:
        """So many tokens are to be reserved; *most_completion* of budgets."""
        self._expected_prompt = prompt
        self._expected_cached = cached
        self._expected_completion = completion
        self._most_completion = most_completion

    def weigh(self, model: Metered) -> None:
        """Put what is expected into units of limits."""
        plan = self.plan
        prompt, cached, completion = self._expected_prompt, self._expected_cached, self._expected_completion
        self.prompt, self.both = plan.weighted(prompt, cached, completion)
        self.completion = completion
        if not plan.counts_most:
            return
        most = self._most_completion
        self.most_both = self.both if most == completion else plan.weighted(prompt, cached, most)[1]
        if plan.counts_usd:
            most_usd = model.most_usd
            self.usd = (model.cost_usd if most_usd is None else most_usd)(prompt, cached, most)
            is_sure = most_usd is None and most == completion
            self.likely_usd = self.usd if is_sure else model.cost_usd(prompt, cached, completion)

    def charges(self, model: Metered, now: float) -> list[Charge]:
        """The same for each limit of the plan."""
        tokens, cost_usd, usd = self.expected, 0.0, 0.0
        most = self._most_completion
        if self.plan.counts_usd:
            cost_usd = model.cost_usd(tokens.prompt, tokens.cached, tokens.completion)
            most_usd = model.cost_usd if model.most_usd is None else model.most_usd
            usd = most_usd(tokens.prompt, tokens.cached, most)
        return self.plan.charges(tokens, cost_usd, now, most_completion=most, most_usd=usd)

    def cost_of(self, completion: float) -> float:
        """US dollars for so many tokens of an answer."""
        return self.metered.cost_usd(0.0, 0.0, completion)

    def __call__(self) -> Entry:
        assert self._lost is not None, "it is settled, and will never be lost"
        return self._lost(self.expected)

    def expose(self) -> None:
        """It is granted, or about to be: what it may use beyond that is on its way."""
        exposure = self.exposure
        exposure.tokens += self.unreserved
        if self.is_shortened:
            exposure.shortened += 1

    def cover(self) -> None:
        """Nothing more is on its way. Once more has no effect."""
        exposure = self.exposure
        exposure.tokens -= self.unreserved
        self.unreserved = 0.0
        if self.is_shortened:
            self.is_shortened = False
            exposure.shortened -= 1

    def end(self) -> None:
        """It is settled. Who would have told of a loss is let go: that one knows this, and both would be garbage."""
        self.is_settled = True
        self.cover()
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
        most_output_tokens: int = MOST_OUTPUT_TOKENS,
    ) -> None:
        """*clock* gives seconds since 1970. It tells which day it is; all else is counted by the store's clock.

        *most_output_tokens* are of an answer that neither its request nor its model limits.
        """
        self._most_output_tokens = most_output_tokens
        self._exposures: dict[str, Exposure] = {}
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
        charges = reservation.charges(model, now)
        decision = self._store.reserve_at_once(reservation.team, reservation.id, charges, reservation)
        if decision is None:
            return None
        if isinstance(decision, Granted):
            reservation.expose()
            reservation.headers = plan.heads.of(decision.levels)
            plan.seats = self._store.seats(reservation.id, plan.counted)
            return reservation
        if math.isinf(decision.wait_s) and _is_guessed(reservation.expected, ask):
            return None  # a smaller guess may fit
        raise self._refusal(plan, charges, decision, now)

    def _took(self, reservation: Reservation, model: Metered, seats: Seats) -> bool:
        """Whether it could be taken by numbers."""
        plan, now = reservation.plan, seats.desk.now()
        plan.look(seats, now)
        reservation.seats = seats
        reservation.weigh(model)
        granted = seats.desk.take(reservation, now)
        if granted is None:
            reservation.seats = None
            return False
        reservation.expose()
        reservation.headers = plan.heads.of(granted.levels)
        return True

    async def reserve(self, caller: Caller, model: Metered, ask: Ask, lost: LostEntry) -> Reservation:
        """Take what the request is expected to use of every limit of *caller*, or nothing of any.

        Limits of a minute take the length that an answer is expected to have, budgets the longest that it can have. A
        guess alone makes no request impossible: where it is more than a limit ever gives, what the limit has for the
        answer is taken, in a second round trip. One such request of a team is served at a time.

        Raises:
            RateLimited: a limit has no room now. Headers and message say when it has; its `refused_by` names it.
            QuotaSpent: a budget is spent, or the request takes more than a limit ever gives.
            StoreAway: the store cannot be reached, and the settings say not to go on without it.
        """
        reservation = self._begun(caller, model, ask, lost)
        if not reservation.number:
            return reservation
        plan, now = reservation.plan, self._clock()
        charges = reservation.charges(model, now)
        reservation.expose()
        decision: Granted | Refused | None = None
        try:
            decision = await self._store.reserve(reservation.team, reservation.id, charges, reservation)
            if (
                not isinstance(decision, Granted)
                and math.isinf(decision.wait_s)
                and _is_guessed(reservation.expected, ask)
                and _fit(reservation, model, charges, decision, now)
            ):
                charges = reservation.charges(model, now)
                decision = await self._store.reserve(reservation.team, reservation.id, charges, reservation)
        except StoreAway as fault:
            fault.retry_after_s = AWAY_RETRY_S if fault.retry_after_s is None else fault.retry_after_s
            raise
        finally:
            if not isinstance(decision, Granted):
                reservation.cover()
        if isinstance(decision, Granted):
            reservation.headers = plan.heads.of(decision.levels)
            return reservation
        raise self._refusal(plan, charges, decision, now)

    def settle(
        self,
        reservation: Reservation,
        outcome: Outcome,
        used: Tokens,
        cost_usd: float,
        entry: Draft,
        *,
        counts: bool = False,
    ) -> None:
        """Count what was *used* instead of what was reserved, and book *entry*, which says the same.

        A request that ``failed`` without any use gets all of it back, its place among the requests of a minute too,
        unless it *counts* however it ended.
        """
        if reservation.is_settled:
            return
        reservation.end()
        if outcome == "ok" and used.completion > 0.0:
            self._lengths.learn(
                reservation.lengths, used.completion, asked=reservation.asked, choices=reservation.choices
            )
        if not reservation.number:
            self._store.book(reservation.team, entry)
            return
        plan, seats = reservation.plan, reservation.seats
        is_nothing = outcome == "failed" and not counts and used.prompt + used.completion <= 0.0
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
        team, asked = caller.team_name, ask.max_tokens
        exposure = self._exposures.get(team)
        if exposure is None:
            exposure = self._exposures[team] = Exposure()
        reservation = Reservation(
            self._prefix,
            number,
            team=team,
            model=model,
            plan=plan,
            lengths=lengths,
            exposure=exposure,
            asked=asked,
            choices=choices,
            lost=lost,
        )
        completion = most = 0.0
        if ask.generates:
            cap = model.max_output_tokens
            completion = self._lengths.expected(lengths, asked=asked, cap=cap, choices=choices)
            longest = asked if asked is not None else self._most_output_tokens if cap is None else cap
            most = float((longest if cap is None or longest < cap else cap) * choices)
            most = completion if most < completion else most  # noqa: FURB136  # max() is slower
            if most > completion and plan.unreserved != math.inf:
                self._note_unreserved(reservation, most - completion)
        reservation.expect(ask.prompt_tokens, ask.cached_tokens, completion, most)
        return reservation

    def _note_unreserved(self, reservation: Reservation, tokens: float) -> None:
        """Its answers may have *tokens* beyond what is expected of them.

        Raises:
            RateLimited: too many such are on their way to its team.
        """
        plan, on_their_way = reservation.plan, reservation.exposure.tokens
        if on_their_way > 0.0 and on_their_way + tokens > plan.unreserved:
            error = RateLimited(
                f"The answers on their way to team {reservation.team} may have {math.ceil(on_their_way)} tokens more "
                f"than was reserved for them: Limit {math.floor(plan.unreserved)}, Requested {math.ceil(tokens)}. "
                f"Lower max_tokens, or try again in {duration(UNRESERVED_WAIT_S).decode('ascii')}.",
                counted="tokens",
                refused_by="team/unreserved_tokens",
            )
            error.headers = refusal_headers(UNRESERVED_WAIT_S, again=True)
            raise error
        reservation.unreserved = tokens

    def _refusal(self, plan: Plan, charges: Sequence[Charge], refused: Refused, now: float) -> RateLimited | QuotaSpent:
        scoped, charge = plan.scoped[refused.binding], charges[refused.binding]
        limit, left, units = scoped.limit, refused.levels[refused.binding].remaining, charge.units
        if not scoped.measure.startswith("usd"):  # a part of a token is of no use, and looks like a fault
            left, units = float(math.floor(left + DIGIT)), float(math.ceil(units - DIGIT))
        asked = f"Limit {number(limit.amount)}, Remaining {number(left)}, Requested {number(units)}."
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


def _is_guessed(expected: Tokens, ask: Ask) -> bool:
    """Whether the caller's own `max_tokens` is not what *expected* comes from."""
    return ask.generates and (ask.max_tokens is None or expected.completion < ask.max_tokens * ask.choices)


def _fit(reservation: Reservation, model: Metered, charges: Sequence[Charge], refused: Refused, now: float) -> bool:
    """Have *reservation* expect an answer so short that every limit could give it. False: there is no room for one.

    A rate could, with a full bucket, give its amount; a period what is left of it. As the answer may become longer than
    a period has room for, one such request of a team is served at a time.
    """
    expected, most = reservation.expected, reservation.most_completion
    completion, longest = expected.completion, most
    reservation.expect(expected.prompt, expected.cached, 0.0, 0.0)
    without = reservation.charges(model, now)
    for charge, least, level in zip(charges, without, refused.levels, strict=True):
        of_answer = charge.units - least.units  # in proportion to its length
        if of_answer <= 0.0:
            continue
        if charge.limit.kind == "period":
            longest = min(longest, most * (level.remaining - least.units) / of_answer)
        else:
            completion = min(completion, expected.completion * (charge.limit.amount - least.units) / of_answer)
    is_shortened = longest < most
    longest = float(math.floor(longest))
    completion = min(float(math.floor(completion)), longest)
    if completion < 1 or (is_shortened and reservation.exposure.shortened):
        reservation.expect(expected.prompt, expected.cached, expected.completion, most)
        return False
    reservation.expect(expected.prompt, expected.cached, completion, longest)
    if is_shortened:
        reservation.is_shortened = True
        reservation.exposure.shortened += 1
    return True


def number(units: float) -> str:
    """``50000``, ``0.25``: at most six decimals."""
    return f"{units:.6f}".rstrip("0").rstrip(".")

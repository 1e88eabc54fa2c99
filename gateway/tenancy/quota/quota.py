"""Enforcement of quotas for the proxy, which reserves units before a request and settles them afterward."""

import math
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo

from cache_index.native import mypyc_attr
from gateway.protocol.errors import QuotaSpent, RateLimited, StoreUnavailable
from gateway.tenancy.ledger.entry import Draft, Entry
from gateway.tenancy.ledger.record import Outcome
from gateway.tenancy.quota.checkpointed_meters import CheckpointedMeters
from gateway.tenancy.quota.limit import Charge, Granted, Refused
from gateway.tenancy.quota.meters import PlanHold, PlanMeters
from gateway.tenancy.quota.output_length import Lengths, OutputLengths
from gateway.tenancy.quota.plan import Metered, Plan, Plans, Tokens
from gateway.tenancy.quota.quota_store import QuotaStore
from gateway.tenancy.quota.rate_headers import DIGIT, Headers, duration, refusal_headers
from gateway.tenancy.quota.spent_budgets import SpentBudgets
from gateway.tenancy.teams.caller import Caller

UNAVAILABLE_RETRY_S = 1.0
"""Seconds until the store might be available again. A failed attempt costs little."""

MOST_OUTPUT_TOKENS = 16_384
"""Maximum answer length in tokens if neither the request nor the model limits it."""
UNRESERVED_WAIT_S = 1.0
"""Seconds until an answer might have ended. The end cannot be predicted, and one retry per second costs little."""

LostEntry = Callable[[Tokens], Entry | None]
"""Function that returns the ledger entry of a request that is never settled, given the reserved tokens, or None if the
entry is written elsewhere.
"""


@mypyc_attr(acyclic=True)
class Ask:
    """Properties of a request that must be known for quotas before it is served."""

    __slots__ = ("cached_tokens", "choices", "generates", "max_tokens", "prompt_tokens", "session", "user")

    def __init__(
        self,
        prompt_tokens: float,
        cached_tokens: float = 0.0,
        max_tokens: int | None = None,
        choices: int = 1,
        *,
        generates: bool = True,
        user: str | None = None,
        session: str | None = None,
    ) -> None:
        self.prompt_tokens = prompt_tokens
        """Number of prompt tokens, which is exact if there is a tokenizer, and otherwise an estimate."""
        self.cached_tokens = cached_tokens
        """Number of prompt tokens that are expected to be cached. With 0, the full price is reserved."""
        self.max_tokens = max_tokens
        """Maximum number of tokens that the caller allows for one answer."""
        self.choices = choices
        """Number of answers that the caller requests at once."""
        self.generates = generates
        """Whether the request generates tokens. Embeddings, for example, generate none."""
        self.user = user
        """End user of the request, or None if the request names none."""
        self.session = session
        """Session of the request, or None if the request names none; see `scoped_session`."""


class Exposure:
    """Usage that one team can have in flight beyond its reservations, in the gateway."""

    __slots__ = ("shortened", "tokens")

    def __init__(self) -> None:
        self.tokens = 0.0
        """Tokens that running answers can have beyond the lengths that rate limits reserved."""
        self.shortened = 0
        """Number of running requests that can use more than was left of a budget."""


class Reservation(PlanHold):
    """Reserved units of one request. They are settled once, however the request ends, and later settlements have no
    effect. If a reservation is never settled, it is recorded as a `Draft`.
    """

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
        """Sequence number of the reservation, or 0 if the caller has no limits, so that nothing is reserved."""
        self.team = team
        self.metered = model
        self.model = model.name
        """Configured name of the model."""
        self.plan = plan
        self.lengths = lengths
        self.exposure = exposure
        self.asked = asked
        self.choices = choices
        self.unreserved = 0.0
        """Tokens that the request can use beyond its reservation. *exposure* counts them."""
        self.is_shortened = False
        """Whether the request reserved only the rest of a budget and could use more."""
        self.headers: Headers = ()
        """``x-ratelimit-*`` headers for the response, both for success and for failure."""
        self.is_settled = False
        self._expected_prompt = self._expected_cached = self._expected_completion = self._most_completion = 0.0
        self._lost: LostEntry | None = lost

    @property
    def id(self) -> str:
        """Globally unique id of the reservation, which is never used again."""
        return self._prefix + str(self.number)

    @property
    def expected(self) -> Tokens:
        """Expected token counts of the request without weights. Rate limits reserve them."""
        return Tokens(self._expected_prompt, self._expected_cached, self._expected_completion)

    @property
    def most_completion(self) -> float:
        """Completion tokens that budgets reserve, which are at least the expected completion tokens."""
        return self._most_completion

    def expect(self, prompt: float, cached: float, completion: float, most_completion: float) -> None:
        """Set the expected token counts. Budgets reserve *most_completion* completion tokens."""
        self._expected_prompt = prompt
        self._expected_cached = cached
        self._expected_completion = completion
        self._most_completion = most_completion

    def weigh(self, model: Metered) -> None:
        """Convert the expected tokens into units of each limit."""
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
        """Return the charges of the reservation for all limits of the plan."""
        tokens, cost_usd, usd = self.expected, 0.0, 0.0
        most = self._most_completion
        if self.plan.counts_usd:
            cost_usd = model.cost_usd(tokens.prompt, tokens.cached, tokens.completion)
            most_usd = model.cost_usd if model.most_usd is None else model.most_usd
            usd = most_usd(tokens.prompt, tokens.cached, most)
        return self.plan.charges(tokens, cost_usd, now, most_completion=most, most_usd=usd)

    def cost_of(self, completion: float) -> float:
        """Return the cost of *completion* completion tokens in US dollars."""
        return self.metered.cost_usd(0.0, 0.0, completion)

    def __call__(self) -> Entry | None:
        assert self._lost is not None, "the entry is not settled yet"
        return self._lost(self.expected)

    def expose(self) -> None:
        """Count the possible use beyond the reservation as in flight. Call this when the request is granted, or just
        before.
        """
        exposure = self.exposure
        exposure.tokens += self.unreserved
        if self.is_shortened:
            exposure.shortened += 1

    def cover(self) -> None:
        """Stop counting the possible use beyond the reservation as in flight. A second call has no effect."""
        exposure = self.exposure
        exposure.tokens -= self.unreserved
        self.unreserved = 0.0
        if self.is_shortened:
            self.is_shortened = False
            exposure.shortened -= 1

    def end(self) -> None:
        """Mark the reservation as settled. `_lost` refers to this object and is dropped to avoid a reference cycle."""
        self.is_settled = True
        self.cover()
        self._lost = None


class Quota:
    """Enforcement of the limits of all callers with one quota store."""

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
        """Create the object. *clock* returns the time in seconds since 1970. It only determines the day, because the
        store counts by its own clock.

        *most_output_tokens* is the maximum answer length if neither the request nor the model limits it.
        """
        self._most_output_tokens = most_output_tokens
        self._exposures: dict[str, Exposure] = {}
        self._store = store
        self._in_memory = store.in_memory
        self._plans = plans
        self._lengths = lengths
        self._clock = clock
        self._time_zone = time_zone
        self.spent_budgets = SpentBudgets()
        # Unique forever. A random id per request would cost a system call.
        self._prefix = f"{uuid.uuid4().hex}-"
        self._number = 0

    @property
    def is_degraded(self) -> bool:
        """Whether the quota store is unavailable, so that limits are enforced without it."""
        return self._store.is_degraded

    def reserve_at_once(self, caller: Caller, model: Metered, ask: Ask, lost: LostEntry) -> Reservation | None:
        """Reserve in the same way as `reserve`, but without waiting. If a reservation would have to wait, reserve
        nothing and return None.
        """
        in_memory = self._in_memory
        if in_memory is None and self._plan_for(caller, model, ask).limits:
            return None
        reservation = self._begun(caller, model, ask, lost)
        plan = reservation.plan
        if in_memory is None or not reservation.number:
            return reservation
        meters = plan.meters
        if meters is not None and self._reserve_plan(reservation, model, meters, in_memory):
            return reservation
        now = self._clock()
        charges = reservation.charges(model, now)
        decision = in_memory.reserve_at_once(reservation.team, reservation.id, charges, reservation)
        if decision is None:
            return None
        if isinstance(decision, Granted):
            reservation.expose()
            reservation.headers = plan.heads.headers_for(decision.levels)
            plan.meters = in_memory.plan_meters(reservation.id, plan.plan_limits)
            return reservation
        if math.isinf(decision.wait_s) and _is_guessed(reservation.expected, ask):
            return None  # a smaller guess may fit
        raise self._refusal(reservation, charges, decision, now)

    def _reserve_plan(
        self, reservation: Reservation, model: Metered, meters: PlanMeters, in_memory: CheckpointedMeters
    ) -> bool:
        """Try to reserve units without building charges. Return whether this was possible."""
        plan, now = reservation.plan, in_memory.now()
        plan.set_periods(meters, now)
        reservation.meters = meters
        reservation.weigh(model)
        granted = in_memory.reserve_plan(reservation, now)
        if granted is None:
            reservation.meters = None
            return False
        reservation.expose()
        reservation.headers = plan.heads.headers_for(granted.levels)
        return True

    async def reserve(self, caller: Caller, model: Metered, ask: Ask, lost: LostEntry) -> Reservation:
        """Reserve the expected usage of a request from all limits of *caller*, or from none of them.

        Rate limits reserve the expected length of an answer, and budgets reserve the longest possible answer. A request
        is never refused because of a guess alone. If the guess exceeds a limit, a second round trip reserves what the
        limit has left for the answer. A team may have one such request at a time.

        Raises:
            RateLimited: if a limit has no room now. The headers and the message contain the wait, and `refused_by`
                names the limit.
            QuotaSpent: if a budget is spent, or if the request exceeds a limit.
            StoreUnavailable: if the store is unavailable and the settings close the limit in that case.
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
        except StoreUnavailable as fault:
            fault.retry_after_s = UNAVAILABLE_RETRY_S if fault.retry_after_s is None else fault.retry_after_s
            raise
        finally:
            if not isinstance(decision, Granted):
                reservation.cover()
        if isinstance(decision, Granted):
            reservation.headers = plan.heads.headers_for(decision.levels)
            return reservation
        raise self._refusal(reservation, charges, decision, now)

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
        """Replace the reserved units with the used units *used*, and record *entry*, which must contain the same usage.

        If a request ``failed`` without any use, all units are returned, including its place among the requests per
        minute, unless *counts* is true.
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
        plan, in_memory = reservation.plan, self._in_memory
        is_nothing = outcome == "failed" and not counts and used.prompt + used.completion <= 0.0
        if in_memory is not None and reservation.meters is not None:
            prompt, both = plan.weighted(used.prompt, used.cached, used.completion)
            in_memory.settle_plan(
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

    def _plan_for(self, caller: Caller, model: Metered, ask: Ask) -> Plan:
        now = self._clock() if caller.raises else math.inf
        return self._plans.plan_for(caller, model, ask.user, ask.session, now=now)

    def _begun(self, caller: Caller, model: Metered, ask: Ask, lost: LostEntry) -> Reservation:
        """Return a new reservation that contains the units to reserve."""
        plan, choices = self._plan_for(caller, model, ask), ask.choices
        lengths = plan.lengths
        if lengths is None or lengths.is_forgotten:
            lengths = plan.lengths = self._lengths.lengths_for(caller.team_name, model.name)
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
        """Record that the answers can have *tokens* tokens beyond their expected length.

        Raises:
            RateLimited: if too many such tokens are in flight for the team.
        """
        plan, in_flight = reservation.plan, reservation.exposure.tokens
        if in_flight > 0.0 and in_flight + tokens > plan.unreserved:
            error = RateLimited(
                f"Answers in flight for team {reservation.team} may have {math.ceil(in_flight)} tokens beyond their "
                f"reservations: Limit {math.floor(plan.unreserved)}, Requested {math.ceil(tokens)}. "
                f"Lower max_tokens, or try again in {duration(UNRESERVED_WAIT_S).decode('ascii')}.",
                counted="tokens",
                refused_by="team/unreserved_tokens",
            )
            error.headers = refusal_headers(UNRESERVED_WAIT_S, again=True)
            raise error
        reservation.unreserved = tokens

    def _refusal(
        self, reservation: Reservation, charges: Sequence[Charge], refused: Refused, now: float
    ) -> RateLimited | QuotaSpent:
        plan = reservation.plan
        scoped, charge = plan.scoped[refused.binding], charges[refused.binding]
        if refused.is_crowded:
            return self._crowded(plan, refused)
        limit, left, units = scoped.limit, refused.levels[refused.binding].remaining, charge.units
        if not scoped.measure.startswith("usd"):  # a fraction of a token would look like a bug
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
            self.spent_budgets.note(reservation.team, limit.id, charge.period)
            ends = datetime.fromtimestamp(now + charge.period_left_s, self._time_zone)
            error = QuotaSpent(
                f"You exceeded the quota of {scoped.text}: {asked} It resets at "
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
        error.headers = (*plan.heads.headers_for(refused.levels), *refusal_headers(refused.wait_s, again=again))
        return error

    def _crowded(self, plan: Plan, refused: Refused) -> RateLimited:
        """Return the error for a request of an end user or session that the store cannot count now."""
        whose = "end users" if plan.scoped[refused.binding].scope == "user" else "sessions"
        error = RateLimited(
            f"Too many {whose} of the team are active, and no further ones can be counted "
            f"(quota.max_limits_per_team). Please try again in {duration(refused.wait_s).decode('ascii')}.",
            counted="requests",
            refused_by=f"{plan.scoped[refused.binding].scope}/crowded",
        )
        error.headers = (*plan.heads.headers_for(refused.levels), *refusal_headers(refused.wait_s, again=True))
        return error


def _is_guessed(expected: Tokens, ask: Ask) -> bool:
    """Return whether *expected* is a guess, as opposed to the caller's own `max_tokens`."""
    return ask.generates and (ask.max_tokens is None or expected.completion < ask.max_tokens * ask.choices)


def _fit(reservation: Reservation, model: Metered, charges: Sequence[Charge], refused: Refused, now: float) -> bool:
    """Shorten the expected answer of *reservation* until every limit can grant it. If no answer is short enough, return
    False.

    A rate limit can grant its whole amount when the bucket is full, and a period limit can grant what is left of it.
    The answer may exceed what is left of the period, so a team may have one such request at a time.
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
    """Return *units* as text with at most six decimal digits, such as ``50000`` or ``0.25``."""
    return f"{units:.6f}".rstrip("0").rstrip(".")

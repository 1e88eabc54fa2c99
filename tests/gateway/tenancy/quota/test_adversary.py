"""A caller who wants as much as possible for its budget, and chooses what to ask for, when to leave, and when to stop.

It knows how limits work: it sends short answers until long ones are believed to be short, asks for all that it may, for
nothing in particular, or for several answers, lets requests run beside each other, and ends them as suits it.
"""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC

import pytest

from gateway.protocol.errors import QuotaSpent, RateLimited
from gateway.tenancy.ledger.price import Price
from gateway.tenancy.ledger.record import Outcome
from gateway.tenancy.quota.output_length import OutputLengths
from gateway.tenancy.quota.plan import Calendar, Metered, Plans, Tokens
from gateway.tenancy.quota.quota import Ask, Quota, Reservation
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.limits import Limits
from tests.contracts.embedded_quota import embedded
from tests.contracts.quota_stage import QuotaStage
from tests.contracts.redis_quota import redis
from tests.contracts.shared_quota import shared
from tests.gateway.tenancy.quota.examples import NOW, caller, entry

PRICE = Price.per_million(input_usd=10.0, cached_input_usd=1.0, output_usd=100.0)
CAP = 8000
"""Tokens of the model's longest answer."""
TINY = Metered("tiny", PRICE.cost_usd, max_output_tokens=CAP)
PROMPT = 50
DAY_USD = 20.0
DAY_TOKENS = 150_000
WHO = caller(team=Limits(usd_per_day=DAY_USD), key=Limits(tokens_per_day=DAY_TOKENS))

Open = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[QuotaStage]]


@pytest.fixture(
    params=[
        pytest.param(embedded, id="embedded"),
        pytest.param(shared, id="shared"),
        pytest.param(redis, id="redis", marks=pytest.mark.redis),
    ]
)
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[QuotaStage]:
    open_: Open = request.param
    async with open_(request) as opened:
        yield opened


@dataclass
class Running:
    reservation: Reservation
    most: int
    """Tokens that the engine may generate for it."""


class Adversary:
    def __init__(self, stage: QuotaStage, who: Caller = WHO, *, unreserved_minutes: float = 60.0) -> None:
        self._stage = stage
        self._who = who
        plans = Plans(burst=0.1, cached_weight=0.1, calendar=Calendar(UTC), unreserved_minutes=unreserved_minutes)
        self.quota = Quota(stage.store, plans, lengths=OutputLengths(default=500.0), clock=lambda: NOW, time_zone=UTC)
        self.running: list[Running] = []
        self.used_tokens = 0
        self.used_usd = 0.0
        self.refused = 0

    async def ask(self, max_tokens: int | None, choices: int = 1) -> bool:
        """Whether it was let in."""
        ask = Ask(PROMPT, max_tokens=max_tokens, choices=choices)
        try:
            reservation = self.quota.reserve_at_once(self._who, TINY, ask, lambda _: entry("lost"))
            if reservation is None:
                reservation = await self.quota.reserve(self._who, TINY, ask, lambda _: entry("lost"))
        except (QuotaSpent, RateLimited):
            self.refused += 1
            return False
        most = CAP if max_tokens is None else min(max_tokens, CAP)
        self.running.append(Running(reservation, most * choices))
        return True

    async def end(self, place: int, completion: int, *, aborted: bool = False) -> None:
        each = self.running.pop(place)
        used = Tokens(PROMPT, 0, min(completion, each.most))
        usd = PRICE.cost_usd(used.prompt, used.cached, used.completion)
        self.used_tokens += PROMPT + int(used.completion)
        self.used_usd += usd
        outcome: Outcome = "aborted" if aborted else "ok"
        self.quota.settle(each.reservation, outcome, used, usd, lambda: entry(each.reservation.id))
        await self._stage.carried_out()

    @property
    def possible_tokens(self) -> int:
        """What it has had, and what would come if all that runs had the longest answers."""
        return self.used_tokens + sum(PROMPT + each.most for each in self.running)

    @property
    def possible_usd(self) -> float:
        return self.used_usd + sum(PRICE.cost_usd(PROMPT, 0, each.most) for each in self.running)


async def test_short_answers_do_not_prime_long_ones(stage: QuotaStage) -> None:
    """The attack as it was made: 70 answers of one token, then 100 requests for 50,000 tokens beside each other."""
    adversary = Adversary(stage)
    for _ in range(70):
        assert await adversary.ask(1)
        await adversary.end(0, 1)
    let_in = [await adversary.ask(50_000) for _ in range(100)]

    assert 18 == sum(let_in)
    assert adversary.possible_usd <= DAY_USD
    assert adversary.possible_tokens <= DAY_TOKENS


@pytest.mark.parametrize("seed", range(30))
async def test_whatever_is_asked_for_and_left_a_budget_is_not_passed(stage: QuotaStage, seed: int) -> None:
    """At no moment, were all that runs to have the longest answers that were asked for."""
    rng = random.Random(seed)
    adversary = Adversary(stage)
    greed = rng.random()
    for _ in range(150):
        if rng.random() < 0.6:
            most = rng.choice([1, 2, 50, 400, 3000, CAP, 50_000, 2**31 - 1]) if rng.random() < 0.8 else None
            await adversary.ask(most, rng.choice([1, 1, 1, 3]))
        elif adversary.running:
            place = rng.randrange(len(adversary.running))
            completion = CAP * 3 if rng.random() < greed else rng.choice([0, 1, 30])
            await adversary.end(place, completion, aborted=rng.random() < 0.3)
        assert adversary.possible_usd <= DAY_USD + 1e-6
        assert adversary.possible_tokens <= DAY_TOKENS
    assert adversary.refused


@pytest.mark.parametrize("seed", range(10))
async def test_a_budget_too_small_for_an_answer_is_passed_by_one_answer_at_most(stage: QuotaStage, seed: int) -> None:
    """Without `max_tokens` such a request would never be served: one at a time is, with what is left."""
    rng = random.Random(seed)
    small = caller(team=Limits(usd_per_day=0.5))
    adversary = Adversary(stage, small)
    let_in = 0
    for _ in range(80):
        if rng.random() < 0.7:
            let_in += await adversary.ask(rng.choice([None, None, 1, 50_000]))
        elif adversary.running:
            await adversary.end(rng.randrange(len(adversary.running)), rng.choice([0, 1, 200]))
        one = PRICE.cost_usd(0, 0, CAP)
        assert adversary.possible_usd <= 0.5 + one + 1e-6
    assert let_in


async def test_use_beyond_reservations_per_minute_is_bounded(stage: QuotaStage) -> None:
    """They reserve what is expected. Beyond that, half a minute's amount may be on its way to a team."""
    who = caller(team=Limits(tokens_per_minute=60_000))
    adversary = Adversary(stage, who, unreserved_minutes=0.5)
    for _ in range(16):
        assert await adversary.ask(CAP)
        await adversary.end(0, 1)

    await stage.advance(60.0)
    let_in = sum([await adversary.ask(CAP) for _ in range(11)])

    assert 3 == let_in
    await adversary.end(0, 1)
    assert await adversary.ask(CAP)
    assert not await adversary.ask(CAP)

"""Limits of end users, sessions and projects, and raises of them, compared with an independent count of requests."""

import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC

import msgspec
import pytest

from gateway.protocol.errors import QuotaSpent, RateLimited
from gateway.tenancy.quota.limit_status import limit_status
from gateway.tenancy.quota.output_length import OutputLengths
from gateway.tenancy.quota.plan import Calendar, Metered, Plans, Tokens
from gateway.tenancy.quota.quota import Ask, Quota, Reservation
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.limit_raise import LimitRaise, RaiseScope
from gateway.tenancy.teams.limits import Limits, Measure
from gateway.tenancy.teams.team import Team
from tests.contracts.embedded_quota import embedded
from tests.contracts.quota_stage import QuotaStage
from tests.contracts.redis_quota import redis
from tests.contracts.shared_quota import shared
from tests.gateway.tenancy.quota.examples import NOW, caller, entry

TINY = Metered("tiny", lambda prompt, cached, completion: 0.0)
USERS = (None, "", "alice", "bob", "a/b", "x" * 256)
SESSIONS = (None, "blue\0s-1", "blue\0s-2")
USER = Limits(tokens_per_day=9000, requests_per_minute=120)
SESSION = Limits(concurrent=3, tokens_per_minute=12_000)
PROJECT = Limits(tokens_per_day=25_000)
TEAM = Limits(tokens_per_minute=60_000, concurrent=12)

RAISABLE: tuple[tuple[RaiseScope, str, Measure, float], ...] = (
    ("user", "alice", "tokens_per_day", 9000.0),
    ("user", "", "tokens_per_day", 9000.0),
    ("session", "s-1", "concurrent", 3.0),
    ("project", "search", "tokens_per_day", 25_000.0),
    ("team", "blue", "concurrent", 12.0),
)
ROUNDING = 0.01
"""All amounts are whole, and a clock in seconds since 1970 counts a thousand tokens a second to 0.0002 tokens."""

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
class Bucket:
    """Tokens of a limit per minute, which refill each second."""

    amount: float
    burst: float
    level: float
    at: float

    def refill(self, now: float) -> None:
        self.level = min(self.burst, self.level + (now - self.at) * self.amount / 60.0)
        self.at = now


@dataclass
class Oracle:
    """What is used, by owner and measure, as a person would count it: without leases, checkpoints or scripts."""

    now: float = NOW
    raises: tuple[LimitRaise, ...] = ()
    used: defaultdict[tuple[str, str, str], float] = field(default_factory=lambda: defaultdict(float))
    buckets: dict[tuple[str, str], Bucket] = field(default_factory=dict)

    def owners(self, user: str | None, session: str | None) -> list[tuple[str, str]]:
        named = [("session", session)] if session else []
        return [("user", user or ""), *named, ("project", "search"), ("team", "blue")]

    def bucket(self, owner: str, measure: str, amount: float) -> Bucket:
        burst = min(amount, max(5.0 if measure == "requests_per_minute" else 1.0, amount * 0.1))
        found = self.buckets.setdefault((owner, measure), Bucket(amount, burst, burst, self.now))
        found.refill(self.now)
        return found

    def left(self, kind: str, owner: str, measure: str, amount: float) -> float:
        if measure.endswith("per_minute"):
            return self.bucket(kind + owner, measure, amount).level
        return amount - self.used[kind + owner, measure, self.period(measure)]

    def period(self, measure: str) -> str:
        return f"{self.now // 86_400:.0f}" if measure.endswith("day") else ""

    def limits(self, team: Team, user: str | None, session: str | None) -> list[tuple[str, str, str, float]]:
        amounts = {
            "user": team.user_limits,
            "session": team.session_limits,
            "project": team.project_limits["search"],
            "team": team.limits,
        }
        return [
            (kind, owner, measure, self.raised(kind, owner.removeprefix("blue\0"), measure, amount))
            for kind, owner in self.owners(user, session)
            for measure, amount in msgspec.structs.asdict(amounts[kind]).items()
            if amount is not None
        ]

    def raised(self, kind: str, owner: str, measure: str, amount: float) -> float:
        """Raises double what is there, so the highest of two is the same as any of them."""
        is_raised = any(
            each.until > self.now and (each.scope, each.name, each.measure) == (kind, owner, measure)
            for each in self.raises
        )
        return 2.0 * amount if is_raised else amount

    def grants(self, team: Team, user: str | None, session: str | None, tokens: float) -> bool:
        for kind, owner, measure, amount in self.limits(team, user, session):
            units = tokens if measure.startswith("tokens") else 1.0
            left = self.left(kind, owner, measure, amount)
            if measure.endswith("per_minute"):
                units = min(units, self.bucket(kind + owner, measure, amount).burst)
            if left < units - ROUNDING:
                return False
        return True

    def charge(self, team: Team, user: str | None, session: str | None, tokens: float, requests: float) -> None:
        for kind, owner, measure, amount in self.limits(team, user, session):
            units = tokens if measure.startswith("tokens") else requests
            if measure.endswith("per_minute"):
                self.bucket(kind + owner, measure, amount).level -= units
            else:
                self.used[kind + owner, measure, self.period(measure)] += units


@dataclass
class Running:
    reservation: Reservation
    user: str | None
    session: str | None
    tokens: float


class Play:
    """Requests of several end users and sessions, made through the gateway's quota and counted by the oracle."""

    def __init__(self, stage: QuotaStage) -> None:
        self.stage = stage
        self.oracle = Oracle()
        self.plans = Plans(burst=0.1, cached_weight=0.1, calendar=Calendar(UTC))
        self.quota = Quota(
            stage.store,
            self.plans,
            lengths=OutputLengths(default=500.0),
            clock=lambda: self.oracle.now,
            time_zone=UTC,
        )
        self.who: Caller = caller(user=USER, session=SESSION, project=PROJECT, team=TEAM)
        self.running: list[Running] = []
        self.refused = 0

    async def ask(self, user: str | None, session: str | None, tokens: float) -> None:
        expected = self.oracle.grants(self.who.team, user, session, tokens)
        ask = Ask(tokens, generates=False, user=user, session=session)
        try:
            reservation = self.quota.reserve_at_once(self.who, TINY, ask, lambda _: entry("lost"))
            if reservation is None:
                reservation = await self.quota.reserve(self.who, TINY, ask, lambda _: entry("lost"))
        except (QuotaSpent, RateLimited) as refusal:
            reservation, message = None, refusal.message
            self.refused += 1
        else:
            message = "granted"
        assert expected is (reservation is not None), message
        if reservation is None:
            return
        self.oracle.charge(self.who.team, user, session, tokens, 1.0)
        self.running.append(Running(reservation, user, session, tokens))

    def give_raise(self, rng: random.Random) -> None:
        """Double a budget of an end user or of the project, or the number of requests that run at once."""
        scope, name, measure, amount = rng.choice(RAISABLE)
        until = self.oracle.now + rng.choice([2.5, 5400.0])
        given = LimitRaise("r", scope, name, measure, 2.0 * amount, until, "a test")
        self.oracle.raises += (given,)
        self.who = caller(user=USER, session=SESSION, project=PROJECT, team=TEAM, raises=self.oracle.raises)

    async def end(self, place: int, share: float) -> None:
        each = self.running.pop(place)
        used = float(int(each.tokens * share))
        self.quota.settle(each.reservation, "ok", Tokens(used, 0.0, 0.0), 0.0, lambda: entry("end"))
        team = self.who.team
        self.oracle.charge(team, each.user, each.session, used - each.tokens, 0.0)
        for kind, owner, measure, _ in self.oracle.limits(team, each.user, each.session):
            if measure == "concurrent":
                self.oracle.used[kind + owner, measure, ""] -= 1.0
        await self.stage.carried_out()

    async def check(self) -> None:
        """Compare what is left of every limit."""
        for user in USERS:
            for session in SESSIONS:
                plan = self.plans.plan_for(self.who, TINY, user, session, now=self.oracle.now)
                found = await limit_status(self.stage.store, "blue", [plan], self.oracle.now)
                for each in found:
                    scoped = each.scoped
                    name = f"blue\0{scoped.name}" if scoped.scope == "session" else scoped.name
                    left = self.oracle.left(scoped.scope, name, scoped.measure, scoped.limit.amount)
                    assert max(0.0, left) == pytest.approx(each.level.remaining, abs=0.01), scoped.text


@pytest.mark.parametrize("seed", range(10))
async def test_users_sessions_and_projects_get_what_they_have_and_no_more(stage: QuotaStage, seed: int) -> None:
    rng = random.Random(seed)
    play = Play(stage)
    for _ in range(150):
        action = rng.random()
        if action < 0.03:
            play.give_raise(rng)
        elif action < 0.6:
            await play.ask(rng.choice(USERS), rng.choice(SESSIONS), float(rng.randrange(1, 1500)))
        elif action < 0.9 and play.running:
            await play.end(rng.randrange(len(play.running)), rng.choice([0.0, 0.5, 1.0, 1.0]))
        elif action > 0.97:
            while play.running:
                await play.end(0, 1.0)
            play.oracle.now += 3600.0
            await stage.advance(3600.0)
        elif action > 0.9:
            play.oracle.now += 1.0
            await stage.advance(1.0)
    await play.check()

    assert play.refused


async def test_a_refusal_names_the_end_user_and_gives_the_wait(stage: QuotaStage) -> None:
    play = Play(stage)
    play.who = caller(user=Limits(tokens_per_minute=600), team=Limits(requests_per_minute=6000))
    ask = Ask(60.0, generates=False, user="alice")
    await play.quota.reserve(play.who, TINY, ask, lambda _: entry("lost"))
    with pytest.raises(RateLimited) as refused:
        await play.quota.reserve(play.who, TINY, ask, lambda _: entry("lost"))
    another = await play.quota.reserve(play.who, TINY, Ask(60.0, generates=False, user="bob"), lambda _: entry("lost"))

    assert (
        "Rate limit reached for end user 'alice' on tokens per min (TPM): Limit 600, Remaining 0, Requested 60. "
        "Please try again in 6s."
    ) == refused.value.message
    assert "user/tokens_per_minute" == refused.value.refused_by
    assert (b"retry-after", b"6") in refused.value.headers
    assert (b"x-ratelimit-limit-tokens", b"600") in another.headers

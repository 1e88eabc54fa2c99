"""Limits without the store."""

import random

import pytest

from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.quota.limit import Charge, Granted, Limit, Refused
from gateway.tenancy.quota.share import Live, Policy, Share
from tests.contracts.quota_stage import NOW, entry

REQUESTS = Limit("key:ci/requests_per_minute", "rate", 60.0, burst=6.0)
TOKENS = Limit("team:blue/model:tiny/tokens_per_minute", "rate", 6000.0, burst=600.0)
INPUT = Limit("key:ci/input_tokens_per_minute", "rate", 6000.0, burst=600.0)
SLOTS = Limit("team:blue/concurrent", "concurrent", 9.0)
DAY = Limit("key:ci/tokens_per_day", "period", 9000.0)
MONTH = Limit("key:ci/usd_per_month", "period", 9.0)
ALL = Policy(budget="share")


def charge(limit: Limit, units: float = 1.0) -> Charge:
    return Charge(limit, units, "2026-11", 86_400.0) if limit.kind == "period" else Charge(limit, units)


def granted(share: Share, limit: Limit, units: float, *, tries: int = 20, team: str = "blue") -> int:
    """Return how many times *units* are granted at once."""
    return sum(
        isinstance(share.reserve(team, f"{limit.id}-{number}", [charge(limit, units)], NOW), Granted)
        for number in range(tries)
    )


@pytest.mark.parametrize(
    ("limit", "units", "expected"),
    [(REQUESTS, 1.0, 2), (TOKENS, 50.0, 4), (SLOTS, 1.0, 3), (DAY, 1000.0, 3), (MONTH, 1.0, 3)],
    ids=["requests", "tokens", "concurrent", "tokens a day", "dollars"],
)
def test_each_of_three_gateways_grants_a_third(limit: Limit, units: float, expected: int) -> None:
    assert expected == granted(Share(ALL, replicas=3), limit, units)


@pytest.mark.parametrize(
    ("policy", "limit"),
    [
        (Policy(requests="closed"), REQUESTS),
        (Policy(tokens="closed"), TOKENS),
        (Policy(tokens="closed"), INPUT),
        (Policy(concurrent="closed"), SLOTS),
        (Policy(), DAY),
        (Policy(), MONTH),
    ],
)
def test_a_kind_that_is_closed_is_closed_and_no_other_is(policy: Policy, limit: Limit) -> None:
    """Budgets are closed by default: what they grant cannot be undone."""
    share = Share(policy, replicas=1)
    others = [each for each in (REQUESTS, TOKENS, SLOTS, DAY) if policy.action_for(each) == "share"]
    with pytest.raises(StoreUnavailable, match=limit.id) as raised:
        share.reserve("blue", "a", [*map(charge, others), charge(limit)], NOW)

    assert raised.value.retry_after_s is not None
    assert isinstance(share.reserve("blue", "b", [*map(charge, others)], NOW), Granted)


def test_its_share_comes_back_at_its_share_of_the_rate() -> None:
    share = Share(ALL, replicas=3)
    share.reserve("blue", "a", [charge(TOKENS, 200.0)], NOW)
    refused = share.reserve("blue", "b", [charge(TOKENS, 100.0)], NOW)

    assert isinstance(refused, Refused)
    assert 3.0 == pytest.approx(refused.wait_s)
    assert isinstance(share.reserve("blue", "c", [charge(TOKENS, 100.0)], NOW + 3.0), Granted)


def test_a_request_larger_than_the_share_gets_503() -> None:
    """The limit is not spent: when the store is back, there is room."""
    share = Share(ALL, replicas=3)

    with pytest.raises(StoreUnavailable, match="is too small"):
        share.reserve("blue", "a", [charge(TOKENS, 2001.0)], NOW)
    refused = share.reserve("blue", "b", [charge(TOKENS, 6001.0)], NOW)
    assert isinstance(refused, Refused)
    assert float("inf") == refused.wait_s


def test_requests_that_run_count_until_they_end() -> None:
    """The share is three, and two run already."""
    share = Share(ALL, replicas=3)
    charges = [charge(SLOTS), charge(TOKENS, 10.0)]
    running = {name: Live("blue", charges, lambda: entry("x")) for name in ("a", "b")}
    share.begin(running, NOW)
    share.begin(running, NOW)

    assert isinstance(share.reserve("blue", "c", charges, NOW), Granted)
    assert isinstance(share.reserve("blue", "d", charges, NOW), Refused)
    share.settle("a", charges)
    share.settle("a", charges)
    assert isinstance(share.reserve("blue", "e", charges, NOW), Granted)
    assert isinstance(share.reserve("blue", "f", charges, NOW), Refused)


def test_it_settles_what_it_granted() -> None:
    """Unused units come back. A second settlement, or one of an unknown reservation, changes nothing."""
    share = Share(ALL, replicas=1)
    share.reserve("blue", "a", [charge(TOKENS, 600.0), charge(SLOTS)], NOW)
    for _ in range(2):
        share.settle("a", [charge(SLOTS), charge(TOKENS, 100.0)])
    share.settle("never", [charge(TOKENS, 0.0)])
    after = share.reserve("blue", "b", [charge(TOKENS, 500.0), charge(SLOTS)], NOW)

    assert isinstance(after, Granted)
    assert [0.0, 8.0] == pytest.approx([level.remaining for level in after.levels], abs=0.01)


def test_a_store_that_comes_and_goes_gives_no_burst_each_time() -> None:
    share = Share(ALL, replicas=1)
    share.begin({}, NOW)
    share.reserve("blue", "a", [charge(TOKENS, 600.0)], NOW)
    share.settle("a", [charge(TOKENS, 600.0)])
    share.begin({}, NOW + 1.0)

    refused = share.reserve("blue", "b", [charge(TOKENS, 600.0)], NOW + 1.0)
    assert isinstance(refused, Refused)
    assert 5.0 == pytest.approx(refused.wait_s)


@pytest.mark.parametrize("seed", range(50))
def test_all_gateways_together_never_grant_more_than_the_limit(seed: int) -> None:
    """Tokens less refunds stay below burst plus rate times time, concurrent requests below the limit."""
    rng = random.Random(seed)
    shares = [Share(ALL, replicas=3) for _ in range(3)]
    now, tokens, running = NOW, 0.0, dict[str, tuple[Share, float]]()
    for number in range(1000):
        now += rng.expovariate(20.0)
        share, units = rng.choice(shares), rng.uniform(1.0, 200.0)
        decision = share.reserve("blue", str(number), [charge(TOKENS, units), charge(SLOTS)], now)
        if isinstance(decision, Granted):
            tokens += units
            running[str(number)] = share, units
        if running and rng.random() < 0.4:
            ended = rng.choice(list(running))
            share, units = running.pop(ended)
            used = rng.uniform(0.0, units)
            share.settle(ended, [charge(TOKENS, used), charge(SLOTS, 0.0)])
            tokens -= units - used

        assert len(running) <= 9
        assert tokens <= TOKENS.burst + TOKENS.amount / 60 * (now - NOW) + 0.01

import asyncio
import random
from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.backends.backend import Call
from gateway.backends.fallbacks.allowance import RateLimits
from gateway.backends.fallbacks.failure_class import FailureClass
from gateway.backends.fallbacks.fallback_attempt import FallbackAttempt, Skipped
from gateway.backends.fallbacks.fallbacks import Fallbacks
from gateway.backends.fallbacks.spill_budget import SpillLimits
from gateway.protocol.errors import ReplyBroken, UpstreamError, UpstreamRefused
from gateway.protocol.usage import Usage, usage_of
from gateway.tenancy.ledger.price import Price
from tests.fakes.backends import JSON, Answers, Fake, Hangs, Refuses, ScriptedReply
from tests.gateway.backends.fallbacks.examples import (
    CHAT,
    a_fallback,
    a_request,
    a_target,
    an_attempt,
    described,
    named,
)

CALL = Call(b"POST", CHAT.encode(), [], b"{}", streams=False, model="tiny")
ANSWER = b'{"usage":{"prompt_tokens":100,"completion_tokens":40,"total_tokens":140}}'
PRICE = Price(input_usd=0.0001, output_usd=0.001)
"""A request with a prompt of 100 tokens costs a cent, and at most 5 more for 50 tokens of output."""


def test_without_fallbacks_it_is_false() -> None:
    unreachable = Fallbacks("tiny")
    unreachable.note_request(0.0)

    assert not unreachable
    assert [] == list(unreachable.attempts(a_request(), 0.0))


def test_fallbacks_are_asked_in_their_order() -> None:
    fallbacks = Fallbacks("tiny", [a_fallback(named(Answers(), "one")), a_fallback(named(Answers(), "two"))])

    assert fallbacks
    assert ("one", "two") == fallbacks.ids
    assert ["one", "two"] == [described(place) for place in fallbacks.attempts(a_request(), 0.0)]


def test_nothing_is_reserved_of_those_that_are_not_come_to() -> None:
    first, second = a_target(rates=RateLimits(6)), a_target(rates=RateLimits(6))
    fallbacks = Fallbacks("tiny", [a_fallback(target=first), a_fallback(target=second)])
    an_attempt(next(fallbacks.attempts(a_request(), 0.0)))

    assert 0.0 != first.allowance.wait_s(1.0, 0.0)
    assert 0.0 == second.allowance.wait_s(1.0, 0.0)


def test_who_cannot_help_is_passed_over() -> None:
    closed = a_target()
    closed.breaker.failed(FailureClass("shut"), closed.breaker.sent(0.0), 0.0)
    fallbacks = Fallbacks(
        "tiny",
        [
            a_fallback(named(Answers(), "a"), paths=frozenset()),
            a_fallback(named(Answers(), "b"), context_tokens=100),
            a_fallback(named(Answers(), "c"), target=closed),
            a_fallback(named(Answers(), "d"), target=a_target(rates=RateLimits(tokens_per_minute=100))),
            a_fallback(named(Answers(), "e"), price=lambda: Price(input_usd=1.0)),
            a_fallback(named(Answers(), "f")),
        ],
        limits=SpillLimits(usd_per_hour=1.0),
    )
    places = list(fallbacks.attempts(a_request(), 60.0))

    assert ["a: not_served", "b: too_long", "c: breaker", "d: rate", "e: budget", "f"] == [
        described(each) for each in places
    ]
    assert [None, None, 540.0, None, None] == [each.retry_after_s for each in places if isinstance(each, Skipped)]
    assert {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1} == {
        backend: n for (backend, _), n in fallbacks.counts.skipped.items()
    }


def test_who_is_turned_away_reserves_nothing() -> None:
    """A rate is not used up by requests for which there is no money."""
    target = a_target(rates=RateLimits(requests_per_minute=6))
    fallbacks = Fallbacks(
        "tiny", [a_fallback(target=target, price=lambda: PRICE)], limits=SpillLimits(usd_per_hour=0.01)
    )

    assert ["bedrock:m: budget"] == [described(place) for place in fallbacks.attempts(a_request(), 0.0)]
    assert 0.0 == target.allowance.wait_s(1.0, 0.0)
    assert 0.0 == fallbacks.budget.held_usd


def test_the_share_of_spilled_requests_is_kept() -> None:
    fallbacks = Fallbacks("tiny", [a_fallback()], limits=SpillLimits(share=0.1))
    places = []
    for _ in range(100):
        fallbacks.note_request(0.0)
    for _ in range(100):
        places += [described(place) for place in fallbacks.attempts(a_request(), 0.0)]

    assert ["bedrock:m"] * 10 + ["bedrock:m: share"] * 90 == places


def test_a_failed_passage_makes_room_for_the_next_fallback() -> None:
    """Its part of the share and of the budget goes with the request."""
    fallbacks = Fallbacks(
        "tiny",
        [a_fallback(named(Refuses(), name), price=lambda: PRICE) for name in "abcde"],
        limits=SpillLimits(usd_per_hour=0.07, share=0.01),
    )
    tried = []
    for place in fallbacks.attempts(a_request(), 0.0):
        tried.append(described(place))
        an_attempt(place).failed(UpstreamRefused("busy", status=503), 1.0)

    assert ["a", "b", "c", "d", "e"] == tried


def test_the_next_is_reserved_at_the_time_when_the_one_before_ended() -> None:
    """It may have taken a minute to fail."""
    second = a_target(rates=RateLimits(requests_per_minute=6))
    second.allowance.reserve(1.0, 0.0)
    fallbacks = Fallbacks("tiny", [a_fallback(), a_fallback(target=second)])
    places = fallbacks.attempts(a_request(), 0.0)
    an_attempt(next(places)).failed(UpstreamRefused("busy", status=503), 60.0)

    assert "bedrock:m" == described(next(places))


def test_settings_that_change_forget_neither_money_nor_counts() -> None:
    fallbacks = Fallbacks("tiny", [a_fallback(price=lambda: PRICE)], limits=SpillLimits(usd_per_hour=1.0))
    running = an_attempt(next(fallbacks.attempts(a_request(), 0.0)))
    another = Fallbacks(
        "tiny", [a_fallback(price=lambda: PRICE)], limits=SpillLimits(usd_per_hour=0.07), former=fallbacks
    )
    assert ["bedrock:m: budget"] == [described(place) for place in another.attempts(a_request(), 0.0)]
    running.answered(Usage(prompt_tokens=0, completion_tokens=1), 0.0)

    assert ["bedrock:m"] == [described(place) for place in another.attempts(a_request(), 0.0)]
    assert {("bedrock:m", "answered"): 1} == dict(another.counts.requests)


async def test_connections_that_settings_no_longer_use_end_with_their_calls() -> None:
    staying, leaving, idle = Answers(), Answers(), Answers()
    leaving.connections_open = 1
    former = Fallbacks("tiny", [a_fallback(each, connections=each) for each in (staying, leaving, idle)])
    fallbacks = Fallbacks("tiny", [a_fallback(staying, connections=staying)], former=former)
    former.retire(fallbacks)
    assert [False, True, True] == [each.is_retired for each in (staying, leaving, idle)]

    await fallbacks.aclose()
    assert [True, True, False] == [each.is_closed for each in (staying, leaving, idle)]


def test_the_last_connections_end_too() -> None:
    backend = Answers()
    Fallbacks("tiny", [a_fallback(backend, connections=backend), a_fallback()]).retire(None)

    assert backend.is_retired


# ---- many at once


class Answering(Fake):
    """Answers when the others have had their turn."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.id = name

    async def _reply(self) -> ScriptedReply:
        await asyncio.sleep(0)
        return ScriptedReply(200, JSON, [ANSWER])


async def ask(fallbacks: Fallbacks, now: float) -> str | None:
    """What the proxy does with one request when no worker is there; who answered."""
    fallbacks.note_request(now)
    for place in fallbacks.attempts(a_request(), now):
        if isinstance(place, Skipped):
            continue
        try:
            reply = await place.backend.send(CALL)
            body = await reply.read()
            await reply.aclose()
        except UpstreamError as error:
            place.failed(error, now)
            continue
        place.answered(usage_of(body), now)
        return place.backend.id
    return None


async def test_500_at_once_get_no_more_than_the_rate() -> None:
    one, two = Answering("one"), Answering("two")
    fallbacks = Fallbacks(
        "tiny",
        [
            a_fallback(one, target=a_target("one", rates=RateLimits(requests_per_minute=600, ramp_s=60.0))),
            a_fallback(two, target=a_target("two", rates=RateLimits(tokens_per_minute=90_000))),
        ],
    )
    served = await asyncio.gather(*(ask(fallbacks, 0.0) for _ in range(500)))

    # Of the one a tenth of the burst of 100 requests, of the other its burst of 15000 tokens in requests of 150.
    assert (10, 100) == (len(one.calls), len(two.calls))
    assert 390 == served.count(None)
    assert {("one", "rate"): 490, ("two", "rate"): 390} == dict(fallbacks.counts.skipped)


async def test_500_at_once_spend_no_more_than_the_budget() -> None:
    """Each may cost 6 cents, and costs 5: when the first have ended, there is room for one more."""
    backend = Answering("one")
    fallbacks = Fallbacks("tiny", [a_fallback(backend, price=lambda: PRICE)], limits=SpillLimits(usd_per_hour=3.0))
    served = await asyncio.gather(*(ask(fallbacks, 0.0) for _ in range(500)))
    assert (50, 450) == (served.count("one"), served.count(None))
    assert pytest.approx((2.5, 0.0)) == (fallbacks.budget.spent_usd(0.0), fallbacks.budget.held_usd)

    served = await asyncio.gather(*(ask(fallbacks, 1.0) for _ in range(500)))
    assert 8 == served.count("one")
    assert 3.0 >= fallbacks.budget.spent_usd(1.0)


async def test_500_at_once_spill_no_more_than_their_share() -> None:
    backend = Answering("one")
    fallbacks = Fallbacks("tiny", [a_fallback(backend)], limits=SpillLimits(share=0.25))
    for _ in range(500):
        fallbacks.note_request(0.0)
    await asyncio.gather(*(ask(fallbacks, 0.0) for _ in range(500)))

    assert 0.25 * 1000 >= len(backend.calls) >= 0.25 * 500


async def test_500_that_are_throttled_go_on_to_the_next() -> None:
    """Once the first have been refused, no one else asks."""
    throttled = named(Answers(429, b'{"error":{"message":"slow down"}}'), "one")
    two = Answering("two")
    fallbacks = Fallbacks("tiny", [a_fallback(throttled), a_fallback(two)])

    async def ask_throttled(now: float) -> str | None:
        for place in fallbacks.attempts(a_request(), now):
            if isinstance(place, FallbackAttempt):
                reply = await place.backend.send(CALL)
                await reply.aclose()
                if reply.status == 200:
                    place.answered(None, now)
                    return place.backend.id
                place.failed(UpstreamRefused("one answered 429: slow down", status=429), now)
        return None

    assert ["two"] * 500 == await asyncio.gather(*(ask_throttled(0.0) for _ in range(500)))
    assert ["two"] * 500 == await asyncio.gather(*(ask_throttled(1.0) for _ in range(500)))
    assert (500, 1000) == (len(throttled.calls), len(two.calls))


async def test_callers_that_leave_give_back_what_they_held() -> None:
    """All but the prompt, which has been sent."""
    backend = named(Hangs(), "one")
    fallbacks = Fallbacks("tiny", [a_fallback(backend, price=lambda: PRICE)], limits=SpillLimits(usd_per_hour=3.0))

    async def leave() -> None:
        attempt = an_attempt(next(fallbacks.attempts(a_request(), 0.0)))
        try:
            await attempt.backend.send(CALL)
        finally:
            attempt.left(0, 0.0)

    tasks = [asyncio.ensure_future(leave()) for _ in range(50)]
    await backend.hanging.wait()
    assert pytest.approx(3.0) == fallbacks.budget.held_usd
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert pytest.approx((0.5, 0.0)) == (fallbacks.budget.spent_usd(0.0), fallbacks.budget.held_usd)


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.floats(0.05, 5.0), st.integers(6, 600))
def test_in_any_order_of_endings_budget_and_rate_hold(rng: random.Random, usd: float, rpm: int) -> None:
    """Requests come by the dozen, and end in any way at any time; against sums over everything that ever happened."""
    target = a_target(rates=RateLimits(requests_per_minute=rpm))
    fallbacks = Fallbacks(
        "tiny", [a_fallback(target=target, price=lambda: PRICE)], limits=SpillLimits(usd_per_hour=usd)
    )
    now, running, sent, spent = 0.0, list[FallbackAttempt](), list[float](), list[float]()
    for _ in range(25):
        now += rng.choice((0.0, 0.1, 3.0, 30.0))
        for _ in range(rng.randrange(20)):
            place = next(fallbacks.attempts(a_request(), now))
            if isinstance(place, FallbackAttempt):
                running.append(place)
                sent.append(now)
        assert len(running) * 0.06 + sum(spent) <= usd + 1e-6
        rng.shuffle(running)
        while running and rng.random() < 0.7:
            attempt, output = running.pop(), rng.randrange(51)
            match rng.randrange(4):
                case 0:
                    attempt.answered(Usage(prompt_tokens=100, completion_tokens=output), now)
                    spent.append(0.01 + output * 0.001)
                case 1:
                    attempt.left(output, now)
                    spent.append(0.01 + output * 0.001)
                case 2:
                    attempt.unused(now)
                case _:
                    attempt.failed(ReplyBroken("cut"), now)
                    spent.append(0.03)  # as expected: 20 tokens of output
                    target.breaker.forget()
    assert all(bisect_left(sent, begins + 60.0) - bisect_left(sent, begins) <= rpm for begins in set(sent))
    assert pytest.approx(sum(spent)) == fallbacks.budget.spent_usd(now)

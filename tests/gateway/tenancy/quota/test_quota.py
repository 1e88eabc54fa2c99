"""Reservations, refusals and settlements over a real store."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from gateway.protocol.errors import GatewayError, QuotaSpent, RateLimited, StoreUnavailable
from gateway.tenancy.ledger.entry import Draft, Entry
from gateway.tenancy.ledger.price import Price
from gateway.tenancy.ledger.record import Outcome
from gateway.tenancy.quota.limit import Charge, Granted, Refused
from gateway.tenancy.quota.output_length import OutputLengths
from gateway.tenancy.quota.plan import Calendar, Metered, Plans, Tokens
from gateway.tenancy.quota.quota import Ask, Quota, Reservation, number
from gateway.tenancy.quota.quota_store import QuotaStore
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.limits import Limits
from tests.contracts.embedded_quota import EmbeddedStage
from tests.contracts.quota_stage import LEASE_S
from tests.gateway.tenancy.quota.examples import caller, entry

ZONE = ZoneInfo("Europe/Berlin")
PRICE = Price.per_million(input_usd=1000.0, cached_input_usd=100.0, output_usd=2000.0)
"""A tenth of a cent per token, so that budgets of a few dollars are soon spent."""
TINY = Metered("tiny", PRICE.cost_usd, max_output_tokens=1000)


class Desk:
    """A quota, its clock, and requests as the proxy makes them."""

    def __init__(self, stage: EmbeddedStage, store: QuotaStore | None = None, *, asks_at_once: bool = True) -> None:
        self.stage = stage
        self._asks_at_once = asks_at_once
        self.lengths = OutputLengths(default=500.0)
        plans = Plans(burst=0.1, cached_weight=0.1, calendar=Calendar(ZONE))
        self.quota = Quota(store or stage.store, plans, lengths=self.lengths, clock=lambda: stage.now, time_zone=ZONE)
        self.lost: list[Tokens] = []

    async def reserve(self, who: Caller, prompt_tokens: float = 10.0, **ask: Any) -> Reservation:
        asked = Ask(prompt_tokens, **ask)
        if self._asks_at_once:
            reservation = self.quota.reserve_at_once(who, TINY, asked, self._lost)
            if reservation is not None:
                return reservation
        return await self.quota.reserve(who, TINY, asked, self._lost)

    async def refusal(self, who: Caller, prompt_tokens: float = 10.0, **ask: Any) -> GatewayError:
        with pytest.raises(GatewayError) as caught:
            await self.reserve(who, prompt_tokens, **ask)
        return caught.value

    def settle(
        self,
        reservation: Reservation,
        *,
        outcome: Outcome = "ok",
        prompt: int = 10,
        cached: int = 0,
        completion: int = 10,
        cost_usd: float = 0.0,
    ) -> Entry:
        line = entry(f"request-{reservation.id}", outcome=outcome)
        used = {"prompt_tokens": prompt, "cached_tokens": cached, "completion_tokens": completion}
        line = Entry.from_record(line.day, msgspec.structs.replace(line.record, cost_usd=cost_usd, **used))
        self.quota.settle(reservation, outcome, Tokens(prompt, cached, completion), cost_usd, lambda: line)
        return line

    def _lost(self, tokens: Tokens) -> Entry:
        self.lost.append(tokens)
        return entry("lost", outcome="lost")


@pytest.fixture(params=[pytest.param(True, id="at once"), pytest.param(False, id="at length")])
async def desk(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    stage = EmbeddedStage(tmp_path / "quota.db")
    await stage.begin()
    yield Desk(stage, asks_at_once=request.param)
    await stage.close()


def remaining(reservation: Reservation, kind: str = "tokens") -> int:
    return int(dict(reservation.headers)[f"x-ratelimit-remaining-{kind}".encode()])


def headers_of(error: GatewayError) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in error.headers}


async def test_a_request_reserves_its_prompt_and_what_its_answer_may_have(desk: Desk) -> None:
    """The expected answer is the least of max_tokens, the model's cap and the learned length."""
    who = caller(key=Limits(tokens_per_minute=100_000))

    assert 10_000 - 10 - 500 == remaining(await desk.reserve(who))
    assert 10_000 - 510 - 10 - 20 == remaining(await desk.reserve(who, max_tokens=20))
    assert 10_000 - 540 - 10 - 60 == remaining(await desk.reserve(who, max_tokens=20, choices=3))
    assert 10_000 - 610 - 10 == remaining(await desk.reserve(who, generates=False, max_tokens=20))
    assert 10_000 - 620 - 10 - 0 == remaining(await desk.reserve(who, 100.0, cached_tokens=100.0, max_tokens=0))


async def test_lengths_are_learned_from_complete_answers(desk: Desk) -> None:
    who = caller(key=Limits(tokens_per_minute=100_000))
    for _ in range(8):
        desk.settle(await desk.reserve(who), outcome="aborted", completion=3)
        desk.settle(await desk.reserve(who), outcome="failed", completion=0)
    assert 500.0 == desk.lengths.expected(desk.lengths.lengths_for("blue", "tiny"))
    for _ in range(8):
        desk.settle(await desk.reserve(who, choices=2), completion=80)

    assert 40.0 == desk.lengths.expected(desk.lengths.lengths_for("blue", "tiny"))


async def test_a_request_is_settled_to_what_it_used(desk: Desk) -> None:
    who = caller(key=Limits(tokens_per_minute=10_000, concurrent=1))
    reservation = await desk.reserve(who, 100.0)

    booked = desk.settle(reservation, prompt=100, cached=90, completion=50)

    assert 1000 - 10 - 9 - 50 - 10 - 5 == remaining(await desk.reserve(who, max_tokens=5))
    assert [booked] == await desk.stage.booked()


async def test_an_aborted_request_has_used_what_was_streamed(desk: Desk) -> None:
    who = caller(key=Limits(tokens_per_minute=10_000, requests_per_minute=100))
    desk.settle(await desk.reserve(who, 100.0), outcome="aborted", prompt=100, completion=7)

    after = await desk.reserve(who, 0.0, generates=False)

    assert 1000 - 107 == remaining(after)
    assert 8 == remaining(after, "requests")


async def test_a_failed_request_has_used_nothing(desk: Desk) -> None:
    """It does not count among the requests per minute either."""
    who = caller(key=Limits(tokens_per_minute=10_000, requests_per_minute=100))
    desk.settle(await desk.reserve(who, 100.0), outcome="failed", prompt=0, completion=0)

    after = await desk.reserve(who, 0.0, generates=False)

    assert 1000 == remaining(after)
    assert 9 == remaining(after, "requests")


async def test_a_request_that_failed_on_its_way_has_used_what_was_streamed(desk: Desk) -> None:
    who = caller(key=Limits(tokens_per_minute=10_000, requests_per_minute=100))
    desk.settle(await desk.reserve(who, 100.0), outcome="failed", prompt=100, completion=7)

    after = await desk.reserve(who, 0.0, generates=False)

    assert 1000 - 107 == remaining(after)
    assert 8 == remaining(after, "requests")


async def test_settling_twice_counts_once(desk: Desk) -> None:
    who = caller(key=Limits(concurrent=2))
    first = await desk.reserve(who)
    await desk.reserve(who)
    line = desk.settle(first)
    desk.settle(first, outcome="failed")

    await desk.reserve(who)
    assert isinstance(await desk.refusal(who), RateLimited)
    assert [line] == await desk.stage.booked()


async def test_callers_without_limits_are_booked_all_the_same(desk: Desk) -> None:
    reservation = await desk.reserve(caller())
    line = desk.settle(reservation, completion=33)
    desk.settle(reservation)

    assert () == reservation.headers
    assert [line] == await desk.stage.booked()
    assert [] == desk.lost


async def test_a_lost_entry_has_what_was_reserved(desk: Desk) -> None:
    """It is made when the lease ends, and for most requests never."""
    await desk.reserve(caller(key=Limits(tokens_per_minute=10_000)), 100.0, max_tokens=20)
    before = list(desk.lost)
    desk.stage.now += LEASE_S
    desk.stage.store.in_memory.sweep()

    assert [] == before
    assert [Tokens(100.0, 0.0, 20.0)] == desk.lost


async def test_a_refusal_names_scope_limit_what_is_left_and_when_to_come_again(desk: Desk) -> None:
    who = caller(key=Limits(tokens_per_minute=50_000, requests_per_minute=600))
    await desk.reserve(who, 4400.0, max_tokens=100)

    error = await desk.refusal(who, 1200.0, max_tokens=300)

    assert isinstance(error, RateLimited)
    assert (429, "tokens", "rate_limit_exceeded") == (error.status, error.type, error.code)
    assert (
        "Rate limit reached for key ci on tokens per min (TPM): Limit 50000, Remaining 500, Requested 1500. "
        "Please try again in 1.2s."
    ) == error.message
    assert "key/tokens_per_minute" == error.refused_by
    assert {
        "x-ratelimit-limit-requests": "600",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "100ms",
        "x-ratelimit-limit-tokens": "50000",
        "x-ratelimit-remaining-tokens": "500",
        "x-ratelimit-reset-tokens": "5.4s",
        "retry-after": "2",
        "retry-after-ms": "1200",
        "x-should-retry": "true",
    } == headers_of(error)
    assert 1 == sum(name == b"retry-after" for name, _ in error.response_headers)


async def test_headers_have_no_fractions_of_a_token(desk: Desk) -> None:
    """A prompt without a tokenizer is estimated, and has fractions."""
    who = caller(key=Limits(tokens_per_minute=50_000))
    await desk.reserve(who, 4400.5, max_tokens=100)

    error = await desk.refusal(who, 1200.25, max_tokens=300)

    assert "Limit 50000, Remaining 499, Requested 1501." in error.message


async def test_ten_requests_a_minute_let_the_first_five_in(desk: Desk) -> None:
    who = caller(key=Limits(requests_per_minute=10))
    for _ in range(5):
        await desk.reserve(who)

    assert "6000" == headers_of(await desk.refusal(who))["retry-after-ms"]


async def test_budgets_reserve_the_longest_answer_that_is_possible(desk: Desk) -> None:
    """Limits per minute reserve the expected length. 100 dollars pay for 50,000 tokens, and the model generates up to
    1,000."""
    who = caller(team=Limits(usd_per_day=100.0, tokens_per_minute=10_000_000))
    for _ in range(16):
        desk.settle(await desk.reserve(who, 0.0, max_tokens=50_000), prompt=0, completion=1, cost_usd=0.0)
    let_in = [await desk.reserve(who, 0.0, max_tokens=50_000) for _ in range(50)]

    assert isinstance(await desk.refusal(who, 0.0, max_tokens=50_000), QuotaSpent)
    assert 1_000_000 - 16 - 50 == remaining(let_in[-1])


async def test_the_highest_price_of_all_backends_is_reserved(desk: Desk) -> None:
    """A fallback may cost more than workers, and who answers is not known in advance."""
    dear = Metered("tiny", PRICE.cost_usd, max_output_tokens=1000, most_usd=lambda *_: 0.6)
    who = caller(team=Limits(usd_per_day=1.0))
    ask = Ask(1.0, max_tokens=1)

    await desk.quota.reserve(who, dear, ask, lambda _: entry("lost"))
    with pytest.raises(QuotaSpent, match=r"Remaining 0\.4, Requested 0\.6"):
        await desk.quota.reserve(who, dear, ask, lambda _: entry("lost"))


async def test_an_answer_that_nothing_limits_is_taken_to_be_long(desk: Desk) -> None:
    free = Metered("tiny", PRICE.cost_usd)
    who = caller(team=Limits(usd_per_day=40.0))

    first = await desk.quota.reserve(who, free, Ask(0.0), lambda _: entry("lost"))
    with pytest.raises(QuotaSpent, match=r"Requested 32\.768"):
        await desk.quota.reserve(who, free, Ask(0.0), lambda _: entry("lost"))

    assert 16_384.0 == first.most_completion


async def test_a_client_that_waits_as_asked_is_served(desk: Desk) -> None:
    who = caller(key=Limits(tokens_per_minute=50_000), team=Limits(requests_per_minute=60))
    waits_s = []
    for _ in range(30):
        refused = await asyncio.gather(desk.reserve(who, 700.0, max_tokens=300), return_exceptions=True)
        if isinstance(refused[0], RateLimited):
            waits_s.append(int(headers_of(refused[0])["retry-after-ms"]) / 1000)
            assert waits_s[-1] <= int(headers_of(refused[0])["retry-after"]) < waits_s[-1] + 1.0
            await desk.stage.advance(waits_s[-1])
            await desk.reserve(who, 700.0, max_tokens=300)
    assert 20.0 < sum(waits_s) < 40.0


async def test_too_many_at_once_are_asked_to_come_again_in_a_second(desk: Desk) -> None:
    who = caller(team=Limits(concurrent=1))
    await desk.reserve(who)

    error = await desk.refusal(who)

    assert isinstance(error, RateLimited)
    assert "requests" == error.type
    assert (
        "Rate limit reached for team blue on concurrent requests: Limit 1, Remaining 0, Requested 1. "
        "Please try again in 1s."
    ) == error.message
    assert "team/concurrent" == error.refused_by
    assert {"retry-after": "1", "retry-after-ms": "1000", "x-should-retry": "true"} == headers_of(error)


async def test_a_spent_budget_reports_its_reset_and_asks_for_no_retry(desk: Desk) -> None:
    """2026-11-18 around noon in Berlin."""
    who = caller(team=Limits(usd_per_day=1.0))
    await desk.reserve(who, 300.0, max_tokens=300)
    local = datetime.fromtimestamp(desk.stage.now, ZONE)
    left_s = 86_400 - (local.hour * 3600 + local.minute * 60 + local.second)

    error = await desk.refusal(who, 100.0, max_tokens=100)

    assert isinstance(error, QuotaSpent)
    assert (429, "insufficient_quota", "insufficient_quota") == (error.status, error.type, error.code)
    assert (
        "You exceeded the quota of team blue on US dollars per day: Limit 1, Remaining 0.1, Requested 0.3. "
        "It resets at 2026-11-19 00:00 (Europe/Berlin)."
    ) == error.message
    assert "team/usd_per_day" == error.refused_by
    headers = {"retry-after": f"{left_s}", "retry-after-ms": f"{left_s}000", "x-should-retry": "false"}
    assert headers == headers_of(error)


async def test_a_request_that_fits_into_an_almost_spent_budget_is_served(desk: Desk) -> None:
    who = caller(team=Limits(usd_per_day=1.0))
    desk.settle(await desk.reserve(who, 300.0, max_tokens=300), prompt=300, completion=300, cost_usd=0.9)

    assert isinstance(await desk.refusal(who, 100.0, max_tokens=100), QuotaSpent)
    await desk.reserve(who, 50.0, max_tokens=20)


async def test_money_is_what_the_record_says(desk: Desk) -> None:
    """A fallback has its own price. The budget loses what the ledger records."""
    who = caller(team=Limits(usd_per_day=1.0))
    desk.settle(await desk.reserve(who, 10.0, max_tokens=10), prompt=10, completion=10, cost_usd=0.99)

    assert isinstance(await desk.refusal(who, 10.0, max_tokens=10), QuotaSpent)


async def test_a_request_that_can_never_fit_has_its_own_message(desk: Desk) -> None:
    who = caller(key=Limits(tokens_per_minute=1000))

    error = await desk.refusal(who, 900.0, max_tokens=200)

    assert isinstance(error, QuotaSpent)
    assert (
        "Request too large for key ci on tokens per min (TPM): Limit 1000, Remaining 100, Requested 1100. "
        "It can never fit. Lower max_tokens or shorten the prompt."
    ) == error.message
    assert "false" == headers_of(error)["x-should-retry"]
    assert "retry-after" not in headers_of(error)


async def test_more_than_a_burst_is_served_when_the_bucket_is_full(desk: Desk) -> None:
    """Otherwise a small limit would refuse forever what a minute of it can grant."""
    who = caller(key=Limits(tokens_per_minute=1000))

    await desk.reserve(who, 500.0, max_tokens=200)
    error = await desk.refusal(who, 10.0, max_tokens=10)

    assert isinstance(error, RateLimited)
    assert "37200" == headers_of(error)["retry-after-ms"]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(tokens_per_minute=100), 90.0),
        (Limits(output_tokens_per_minute=100), 100.0),
        (Limits(tokens_per_day=60, tokens_per_minute=100), 50.0),
        (Limits(usd_per_day=0.1), 45.0),
        (Limits(tokens_per_minute=600), 500.0),
    ],
)
async def test_a_guess_makes_no_request_impossible(desk: Desk, limits: Limits, expected: float) -> None:
    """Without max_tokens, or with a large one, a small limit grants what it has."""
    for max_tokens in (None, 100_000):
        reservation = await desk.reserve(caller(key=limits), max_tokens=max_tokens)
        assert expected == reservation.expected.completion
        desk.settle(reservation, outcome="failed", prompt=0, completion=0)


async def test_a_guess_takes_what_is_left_of_a_small_budget(desk: Desk) -> None:
    """The next request waits for the rate as usual."""
    who = caller(key=Limits(tokens_per_day=60))
    desk.settle(await desk.reserve(who), prompt=10, completion=20)
    assert 20.0 == (await desk.reserve(who)).expected.completion
    spent = await desk.refusal(who)
    by_rate = caller(key=Limits(tokens_per_minute=100, requests_per_minute=6000))
    await desk.reserve(by_rate)
    waiting = await desk.refusal(by_rate)

    assert isinstance(spent, QuotaSpent)
    assert isinstance(waiting, RateLimited)
    assert "60" == headers_of(waiting)["retry-after"]


async def test_max_tokens_of_the_caller_is_not_reduced(desk: Desk) -> None:
    """A prompt that alone is too large is refused too."""
    who = caller(key=Limits(tokens_per_minute=100))
    for refused in (await desk.refusal(who, max_tokens=91), await desk.refusal(who, 100.0)):
        assert "false" == headers_of(refused)["x-should-retry"]
        assert "It can never fit." in refused.message


async def test_ids_of_reservations_are_never_the_same(desk: Desk) -> None:
    other = Desk(desk.stage)
    who = caller(key=Limits(concurrent=1000))
    ids = {(await each.reserve(who)).id for each in (desk, other) for _ in range(100)}

    assert 200 == len(ids)


class AwayStore:
    """A store that cannot be reached."""

    is_degraded = True
    in_memory = None

    async def reserve(self, *_: object) -> Granted | Refused:
        raise StoreUnavailable("The store does not answer")

    def settle(self, team: str, reservation: str, charges: list[Charge], entry: Draft) -> None:
        raise AssertionError

    def book(self, team: str, entry: Draft) -> None:
        raise AssertionError

    async def run(self) -> None:
        await asyncio.Event().wait()


async def test_an_unavailable_store_gets_503(desk: Desk) -> None:
    """The answer is a 503 with the time for a retry."""
    away = Desk(desk.stage, AwayStore())  # type: ignore[arg-type]

    error = await away.refusal(caller(key=Limits(concurrent=1)))

    assert isinstance(error, StoreUnavailable)
    assert [(b"retry-after", b"1")] == error.response_headers
    assert away.quota.is_degraded
    assert not desk.quota.is_degraded


@pytest.mark.parametrize(
    ("units", "text"),
    [(50_000.0, "50000"), (0.25, "0.25"), (0.1 + 0.2, "0.3"), (0.0, "0"), (1e-7, "0"), (100.0, "100")],
)
def test_numbers_are_written_shortly(units: float, text: str) -> None:
    assert text == number(units)


def test_noon_is_when_these_tests_say(tmp_path: Path) -> None:
    assert "2026-11-18" == datetime.fromtimestamp(EmbeddedStage(tmp_path).now, UTC).strftime("%Y-%m-%d")

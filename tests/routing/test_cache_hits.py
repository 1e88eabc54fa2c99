"""The hits of a prompt in the caches of workers, looked up by a fleet."""

import pytest

from cache_index import RadixTree, WorkerId
from cache_index.event import Stored, Tier
from routing.booking import Ending, Outcome
from routing.candidate import Candidate
from routing.fleet import Fleet
from routing.loads import Loads
from routing.request import Request
from tests.routing.confirmed_examples import MODEL, an_exact_request, exact_prefix, reporting_fleet, stored
from tests.routing.examples import ANSWERED, FAILED, A, B, a_fleet, a_request, book, prompt


def seen(fleet: Fleet, request: Request, now: float = 0.0) -> dict[WorkerId, tuple[int, float, str]]:
    """Blocks, tokens and source of each worker's hit."""
    return {c.worker: (c.hit_blocks, c.hit_tokens, c.source) for c in fleet.candidates(request, now)}


def candidate(fleet: Fleet, request: Request, worker: WorkerId, now: float = 0.0) -> Candidate:
    return next(c for c in fleet.candidates(request, now) if c.worker == worker)


def answered(prompt_tokens: int, cached_tokens: int) -> Outcome:
    return Outcome(Ending.ANSWERED, prompt_tokens, cached_tokens, 10)


def test_what_engines_report_goes_before_what_was_sent() -> None:
    """a was sent the prompt and says that it has less of it; b has it, though nothing was sent there."""
    fleet, confirmed = reporting_fleet(A, B)
    fleet.bookings.release(book(fleet, a_request("abcd"), 0.0, A), ANSWERED, 1.0)
    confirmed.apply(A, stored("a"), model=MODEL)
    confirmed.apply(B, stored("abc"), model=MODEL)

    assert {A: (1, 16.0, "reported"), B: (3, 48.0, "reported")} == seen(fleet, an_exact_request("abcd"), 1.0)


def test_without_exact_tokens_goes_what_was_sent() -> None:
    """Blocks of text cannot be compared with blocks of tokens."""
    fleet, confirmed = reporting_fleet(A)
    fleet.bookings.release(book(fleet, a_request("ab"), 0.0, A), ANSWERED, 1.0)
    confirmed.apply(A, stored("abcd"), model=MODEL)

    assert {A: (2, 32.0, "predicted")} == seen(fleet, a_request("abcd"), 1.0)


def test_of_a_worker_that_is_not_trusted_goes_what_was_sent() -> None:
    """This is decided worker by worker. Reports are kept, so that they can be compared with the actual hits."""
    fleet, confirmed = reporting_fleet(A, B)
    confirmed.apply(A, stored("abc"), model=MODEL)
    confirmed.apply(B, stored("abc"), model=MODEL)
    fleet.set_trusted(B, trusted=False)
    request = an_exact_request("abcd")

    assert {A: (3, 48.0, "reported"), B: (0, 0.0, "predicted")} == seen(fleet, request)
    assert 48.0 == candidate(fleet, request, B).reported_tokens
    assert [16] == fleet.caches.block_sizes


def test_a_worker_that_is_absent_cannot_be_trusted() -> None:
    """A stream may report a worker that has just left."""
    fleet, _ = reporting_fleet(A)
    fleet.set_trusted(B, trusted=True)

    assert [A] == [worker.id for worker in fleet]


def test_the_last_token_is_always_computed() -> None:
    """A prompt that ends with its block leaves that block out; one token more, and it counts."""
    fleet, confirmed = reporting_fleet(A)
    confirmed.apply(A, stored("abc"), model=MODEL)

    assert (2, 32.0, "reported") == seen(fleet, an_exact_request("abc", more_tokens=0))[A]
    assert (3, 48.0, "reported") == seen(fleet, an_exact_request("abc", more_tokens=1))[A]


def test_a_prompt_that_does_not_read_the_cache_hits_nothing() -> None:
    """The contents of the cache make no difference."""
    fleet, confirmed = reporting_fleet(A)
    confirmed.apply(A, stored("abc"), model=MODEL)
    request = an_exact_request("abc").changed(reads_cache=False)

    assert (0, 0.0, "predicted") == seen(fleet, request)[A]
    assert candidate(fleet, request, A).reported_tokens is None


def test_blocks_in_host_memory_have_a_price() -> None:
    """Three blocks of 16 tokens at a quarter of their computing time, 1 ms per token."""
    fleet, confirmed = reporting_fleet(A)
    confirmed.apply(A, stored("abc", Tier.CPU), model=MODEL)
    there = candidate(fleet, an_exact_request("abcd"), A)

    assert (3, 48.0) == (there.hit_blocks, there.hit_tokens)
    assert pytest.approx(3 * 0.25 * 16 * 0.001) == there.load_s
    assert Loads(cpu=48.0) == there.loads


def test_loading_counts_as_work() -> None:
    """It stands before the requests that come after."""
    fleet, confirmed = reporting_fleet(A)
    confirmed.apply(A, stored("abcdefgh", Tier.DISK), model=MODEL)
    request = an_exact_request("abcdefgh")
    load_s = candidate(fleet, request, A).load_s
    booking = book(fleet, request, 0.0, A)

    assert pytest.approx(0.01 + 0.001 + load_s) == booking.work_s
    assert pytest.approx(booking.work_s) == candidate(fleet, request, A).load.backlog_s


def test_what_was_sent_a_moment_ago_counts_before_its_engine_reports() -> None:
    """A burst of the same new prompt sees itself. The prediction ends if the engine never reports."""
    fleet, confirmed = reporting_fleet(A, B)
    for worker in (A, B):
        confirmed.apply(worker, stored("a"), model=MODEL)
    booking = book(fleet, an_exact_request("abcd"), 0.0, A)

    assert {A: (4, 64.0, "reported"), B: (1, 16.0, "reported")} == seen(fleet, an_exact_request("abcd"), 1.0)
    fleet.bookings.first_byte(booking, 3.0)
    assert (4, 64.0, "reported") == seen(fleet, an_exact_request("abcd"), 7.0)[A]
    assert (1, 16.0, "reported") == seen(fleet, an_exact_request("abcd"), 9.0)[A]


def test_a_long_prefill_stays_predicted() -> None:
    """The prediction lasts as long as the request waits for its first token."""
    fleet, confirmed = reporting_fleet(A)
    confirmed.apply(A, stored("a"), model=MODEL)
    book(fleet, an_exact_request("abcd"), 0.0, A)
    for now in range(2, 30, 2):
        fleet.tick(float(now))

    assert 4 == seen(fleet, an_exact_request("abcd"), 30.0)[A][0]


def test_a_prediction_of_a_failed_request_ends_at_once() -> None:
    """Reported blocks stay."""
    fleet, confirmed = reporting_fleet(A)
    confirmed.apply(A, stored("a"), model=MODEL)
    fleet.bookings.release(book(fleet, an_exact_request("abcd"), 0.0, A), FAILED, 0.5)

    assert 1 == seen(fleet, an_exact_request("abcd"), 0.5)[A][0]


def test_a_request_that_writes_no_cache_predicts_nothing() -> None:
    """An embedding, say; and when it fails there is nothing to take back."""
    fleet, confirmed = reporting_fleet(A)
    confirmed.apply(A, stored("a"), model=MODEL)
    booking = book(fleet, an_exact_request("abcd").changed(writes_cache=False), 0.0, A)

    assert 1 == seen(fleet, an_exact_request("abcd"), 0.5)[A][0]
    fleet.bookings.release(booking, FAILED, 0.5)
    assert 1 == seen(fleet, an_exact_request("abcd"), 0.5)[A][0]


def test_workers_may_have_blocks_of_different_sizes() -> None:
    """The prompt is known once for each size, and each worker's hit is counted in its own."""
    fleet, confirmed = reporting_fleet(A, B)
    confirmed.apply(A, stored("abcd"), model=MODEL)
    confirmed.apply(B, stored("abcd", block_tokens=32), model=MODEL)
    request = an_exact_request("abcd", block_sizes=(16, 32))

    fleet.tick(0.0)
    assert [16, 32] == fleet.caches.block_sizes
    assert {A: (4, 64.0, "reported"), B: (2, 64.0, "reported")} == seen(fleet, request)


def test_a_fleet_without_reports_has_no_block_sizes() -> None:
    """There is nothing to hash exact tokens for."""
    for fleet in (a_fleet(A), reporting_fleet(A)[0]):
        fleet.tick(0.0)

        assert [] == list(fleet.caches.block_sizes)


def test_before_the_first_block_is_reported_the_metrics_report_its_size() -> None:
    """An engine that has just started has nothing to report. Its reports go before its metrics."""
    fleet, confirmed = reporting_fleet(A)
    fleet.set_capacity(A, blocks=1000, block_size=32)
    fleet.tick(0.0)
    before = list(fleet.caches.block_sizes)
    confirmed.apply(A, stored("a"), model=MODEL)
    fleet.tick(1.0)

    assert ([32], [16]) == (before, fleet.caches.block_sizes)


def test_a_worker_that_reports_but_is_not_trusted_can_prove_itself() -> None:
    """Its stream lacks something, as far as anybody knows: exact tokens show whether that matters."""
    fleet, confirmed = reporting_fleet(A, trusted=False)
    confirmed.apply(A, stored("abcdefghijklmnop"), model=MODEL)
    fleet.tick(0.0)
    assert [16] == fleet.caches.block_sizes

    booking = book(fleet, an_exact_request("abcdefghijklmnop"), 0.0)
    (worker,) = fleet
    for _ in range(40):
        worker.hit_accuracy.learn(booking, 256.0)

    assert (256.0, True, False) == (
        booking.reported_tokens,
        worker.hit_accuracy.reported.is_proven,
        worker.hit_accuracy.reported.is_unreliable,
    )


def test_only_workers_that_are_followed_count_for_the_sizes() -> None:
    """Exact tokens would be of no use for other workers."""
    fleet, _ = reporting_fleet(A, trusted=False)
    fleet.set_capacity(A, blocks=1000, block_size=32)
    fleet.tick(0.0)

    assert [] == fleet.caches.block_sizes


def test_an_index_that_is_wrong_is_corrected_then_ignored() -> None:
    """Half of the reported tokens count if half are there. If none are, reports are ignored until they are right."""
    fleet, confirmed = reporting_fleet(A)
    confirmed.apply(A, stored("abcdefgh"), model=MODEL)
    request = an_exact_request("abcdefgh")
    for i in range(60):
        fleet.bookings.release(book(fleet, request, float(i), A), answered(129, 64), i + 0.5)
    corrected = candidate(fleet, request, A, 60.0)
    for i in range(60, 120):
        fleet.bookings.release(book(fleet, request, float(i), A), answered(129, 0), i + 0.5)
    left = candidate(fleet, request, A, 120.0)
    for i in range(120, 300):
        fleet.bookings.release(book(fleet, request, float(i), A), answered(129, 128), i + 0.5)
    believed = candidate(fleet, request, A, 300.0)

    assert (8, "reported") == (corrected.hit_blocks, corrected.source)
    assert pytest.approx(64.0) == corrected.hit_tokens
    assert ("predicted", 128.0) == (left.source, left.reported_tokens)
    assert (128.0, "reported") == (believed.hit_tokens, believed.source)


def test_an_engine_that_restarts_is_not_held_to_what_it_was() -> None:
    """Its stream reports its new cache by itself. Predictions are dropped, and the accuracy of both is forgotten."""
    fleet, confirmed = reporting_fleet(A)
    confirmed.apply(A, stored("abcdefgh"), model=MODEL)
    request = an_exact_request("abcdefgh")
    for i in range(60):
        fleet.bookings.release(book(fleet, request, float(i), A), answered(129, 0), i + 0.5)
    fleet.engine_restarted(A)

    assert (8, 128.0, "reported") == seen(fleet, request, 60.0)[A]
    assert (0, 0.0, "predicted") == seen(fleet, a_request("abcdefgh"), 60.0)[A]


def test_a_worker_that_left_is_forgotten() -> None:
    """Reports and predictions are dropped."""
    fleet, confirmed = reporting_fleet(A, B)
    confirmed.apply(A, stored("abc"), model=MODEL)
    fleet.set_workers([B], 1.0)

    assert 0 == confirmed.held(A)


def test_the_shadow_is_corrected_too() -> None:
    """An engine with less room than is believed: what was sent there is half gone."""
    fleet = a_fleet(A)
    fleet.bookings.release(book(fleet, a_request("x" * 64), 0.0, A), ANSWERED, 1.0)
    request = a_request("x" * 64)
    for i in range(1, 40):
        fleet.bookings.release(book(fleet, request, float(i), A), answered(1024, 512), i + 0.5)
    there = candidate(fleet, request, A, 50.0)

    assert 64 == there.hit_blocks
    assert 505.0 < there.hit_tokens < 520.0


def test_an_orphan_is_no_hit() -> None:
    """Blocks whose parent was never reported have no place yet."""
    fleet, confirmed = reporting_fleet(A)
    confirmed.apply(A, stored("a"), model=MODEL)
    confirmed.apply(A, Stored([99], 98, [1] * 16, 16), model=MODEL)

    assert (1, 16.0, "reported") == seen(fleet, an_exact_request("ab"))[A]
    assert 4 == exact_prefix("abcd").blocks


def test_a_worker_is_judged_by_what_it_was_predicted_by() -> None:
    """The reports are used while they are trusted, and otherwise the predictions."""
    fleet, confirmed = reporting_fleet(A)
    confirmed.apply(A, stored("abcdefgh"), model=MODEL)
    for i in range(10):
        fleet.bookings.release(book(fleet, an_exact_request("abcdefgh"), float(i), A), answered(129, 64), i + 0.5)
    (worker,) = fleet
    reported = worker.accuracy.value
    fleet.set_trusted(A, trusted=False)

    assert (0.5, 1.0) == (reported, worker.accuracy.value)


def a_full_index(*workers: WorkerId) -> RadixTree:
    """Caches of eight blocks; four of each worker's are of a prompt that is always asked for again."""
    index = RadixTree(max_bytes=10_000_000, default_capacity=8)
    for _ in range(64):
        for worker in workers:
            index.record(worker, prompt("abcd"))
    return index


def evicts_s(fleet: Fleet, request: Request) -> dict[WorkerId, float]:
    return {candidate.worker: candidate.evicts_s for candidate in fleet.candidates(request, 0.0)}


def test_what_a_prompt_pushes_out_costs_what_it_takes_to_compute_it_again() -> None:
    """96 tokens of prompt and 100 of answer, less the 64 that there is room for, 1 ms each; b loses nothing."""
    fleet = a_fleet(A, B, index=a_full_index(A))

    assert {A: pytest.approx(132 * 0.001), B: 0.0} == evicts_s(fleet, a_request("pqrstu"))


def test_what_is_held_already_pushes_nothing_out() -> None:
    """Four of six blocks are there: 32 tokens of prompt and 100 of answer are new."""
    fleet = a_fleet(A, index=a_full_index(A))

    assert {A: pytest.approx(68 * 0.001)} == evicts_s(fleet, a_request("abcdef"))


def test_what_has_room_pushes_nothing_out() -> None:
    """Two blocks of prompt and two of answer, and room for four."""
    fleet = a_fleet(A, index=a_full_index(A))

    assert {A: 0.0} == evicts_s(fleet, a_request("pq", output_tokens=32.0))


def test_what_engines_report_counts_where_they_are_trusted() -> None:
    """It reported the first two of six blocks: four and a token are new, and the answer, and there is room for four."""
    fleet, confirmed = reporting_fleet(A, index=a_full_index(A))
    confirmed.apply(A, stored("pq"), model=MODEL)

    assert {A: pytest.approx(101 * 0.001)} == evicts_s(fleet, an_exact_request("pqrstu"))


def displaces_s(fleet: Fleet, *, begins_session: bool) -> dict[WorkerId, float]:
    """For a prompt that no worker holds."""
    found = fleet.candidates(a_request("zzz"), 0.0, begins_session=begins_session)
    return {candidate.worker: candidate.displaces_s for candidate in found}


def a_fleet_with_sessions() -> Fleet:
    """Worker A has a session of three requests, with 48 tokens of prompt and 100 of answer."""
    fleet = a_fleet(A, B, index=RadixTree(max_bytes=10_000_000, default_capacity=8))
    request = a_request("abc", session="bob")
    for _ in range(3):
        fleet.sessions.begins(request)
        fleet.sessions.sent(request, A, 48.0)
    return fleet


def test_a_new_session_costs_what_live_sessions_lose() -> None:
    """Sessions have two requests and grow by 256 tokens, more than a cache holds, so all is lost that A's session has
    and will have: 148 + 256 tokens at 1 ms.
    """
    found = displaces_s(a_fleet_with_sessions(), begins_session=True)

    assert {A: pytest.approx(404 * 0.001, rel=2e-3), B: 0.0} == found


def test_a_request_that_continues_a_session_displaces_nothing() -> None:
    """Its session is already in the cache of a worker."""
    assert {A: 0.0, B: 0.0} == displaces_s(a_fleet_with_sessions(), begins_session=False)


@pytest.mark.parametrize("lose", ["restarts", "sleeps", "leaves"])
def test_a_worker_without_a_cache_has_no_sessions_to_lose(lose: str) -> None:
    fleet = a_fleet_with_sessions()
    if lose == "restarts":
        fleet.engine_restarted(A)
    elif lose == "sleeps":
        fleet.set_asleep(A, asleep=True)
        fleet.set_asleep(A, asleep=False)
    else:
        fleet.set_workers([B], 0.0)
        fleet.set_workers([A, B], 0.0)

    assert {A: 0.0, B: 0.0} == displaces_s(fleet, begins_session=True)


def test_cache_space_has_the_same_price_on_fast_and_slow_workers() -> None:
    """A computes 16 times as fast as B. Evicted blocks may be computed again by either of them."""
    index = RadixTree(max_bytes=10_000_000, default_capacity=8)
    fleet = a_fleet(A, B, index=index)
    for number in range(60):
        for worker, service_s in ((A, 0.1), (B, 1.6)):
            request = a_request("", prompt_tokens=1000.0, output_tokens=10.0)
            at = 10.0 * number
            booking = book(fleet, request, at, worker)
            fleet.bookings.first_byte(booking, at + service_s)
            fleet.bookings.release(booking, Outcome(Ending.ANSWERED, 1000, 0, 1), at + service_s)
    for worker in [A, B] * 64:
        index.record(worker, prompt("abcd"))
    a, b = fleet.candidates(a_request("p" * 60), 600.0)

    assert a.load.prefill_s_per_token < 0.1 * b.load.prefill_s_per_token
    assert 0.0 < a.evicts_s == b.evicts_s

"""Costs are counted by hand: 10 ms for a prompt, 1 ms for each of its tokens, 0.5 ms for a token beside a neighbor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.booking import Ending, Outcome
from routing.candidate import Candidate
from routing.disaggregation import ByDecodeLoad, Handover, HopRule, here_s, plain
from routing.fleet import Fleet
from routing.rendezvous import Rendezvous
from routing.request import Request
from tests.routing.examples import ABORTED, FAILED, A, B, C, a_candidate, a_fleet, a_request, prompt, seeded

HOP_S = 0.02
FETCH_S = 5e-6


def divided(letters: str = "", *, prompt_tokens: float = 1000.0, output_tokens: float = 100.0) -> Request:
    request = a_request(letters, prompt_tokens=prompt_tokens, output_tokens=output_tokens)
    return request.changed(divides=True)


def decoding(worker: str, **load: float) -> Candidate:
    return a_candidate(worker, **load).changed(fetches=True)  # type: ignore[arg-type]


def by_load(rule: HopRule = HopRule(), *, ties: Rendezvous | None = None) -> ByDecodeLoad:  # noqa: B008  # frozen
    return ByDecodeLoad(seeded(), Handover(), rule, ties)


def remote(strategy: ByDecodeLoad, request: Request, *candidates: Candidate) -> dict[str, float]:
    return {candidate.worker: candidate.remote_tokens for candidate in strategy.rank(request, candidates)}


class TestHandover:
    def test_it_costs_a_request_and_128_kib_for_each_token_until_it_is_known(self) -> None:
        """Over 200 Gbit/s."""
        handover = Handover()

        assert (0.02, 5e-6) == pytest.approx((handover.overhead_s, handover.s_per_token))
        assert 0.04048 == pytest.approx(handover.seconds(4096))

    def test_what_it_takes_is_learned(self) -> None:
        handover = Handover()
        for tokens in [1000, 2000, 4000, 8000] * 50:
            handover.learn(tokens, 0.1 + tokens * 2e-5)

        assert (0.1, 2e-5) == pytest.approx((handover.overhead_s, handover.s_per_token), rel=0.02)

    def test_one_that_took_much_longer_is_taken_as_less(self) -> None:
        """Four times as long as expected, and a second."""
        unlucky, slow = Handover(), Handover()
        unlucky.learn(4096, 600.0)
        slow.learn(4096, 4 * 0.04048 + 1.0)

        assert slow.seconds(4096) == pytest.approx(unlucky.seconds(4096))


class TestWhoFetches:
    def test_where_little_is_missing_it_is_computed(self) -> None:
        """From 20 ms / (2 x 1 ms - 1 ms - 5 us) tokens on the hop is worth it: others wait for a prefill, too."""
        strategy, idle = by_load(), decoding("a")

        assert 20.1 == pytest.approx(strategy.min_tokens(idle), abs=0.01)
        assert {"a": 0.0} == remote(strategy, divided(prompt_tokens=20), idle)
        assert {"a": 21.0} == remote(strategy, divided(prompt_tokens=21), idle)

    def test_the_more_answers_it_generates_the_earlier(self) -> None:
        """Nine of them stand still for each token that it computes."""
        assert 2.0 == pytest.approx(by_load().min_tokens(decoding("a", decodes=9)), abs=0.01)

    def test_what_it_holds_is_not_missing(self) -> None:
        strategy = by_load()

        assert {"a": 0.0} == remote(strategy, divided(prompt_tokens=1000), decoding("a", hit_tokens=990))
        assert {"a": 100.0} == remote(strategy, divided(prompt_tokens=1000), decoding("a", hit_tokens=900))

    def test_where_fetching_is_slower_than_computing_nothing_is_fetched(self) -> None:
        strategy, fast = by_load(), decoding("a", prefill_s_per_token=4e-6)

        assert float("inf") == strategy.min_tokens(fast)
        assert {"a": 0.0} == remote(strategy, divided(prompt_tokens=100_000), fast)

    def test_settings_may_say_from_how_many_tokens_on(self) -> None:
        strategy = by_load(HopRule(min_uncached_tokens=500))

        assert {"a": 0.0} == remote(strategy, divided(prompt_tokens=499), decoding("a"))
        assert {"a": 500.0} == remote(strategy, divided(prompt_tokens=500), decoding("a"))

    def test_who_cannot_compute_fetches_the_shortest(self) -> None:
        assert {"a": 1.0} == remote(by_load(HopRule(always=True)), divided(prompt_tokens=1), decoding("a"))

    def test_a_request_that_stays_whole_is_not_fetched(self) -> None:
        assert {"a": 0.0} == remote(by_load(), a_request(prompt_tokens=1000), decoding("a"))

    def test_nor_is_one_by_a_worker_that_does_whole_requests(self) -> None:
        assert {"a": 0.0} == remote(by_load(), divided(), a_candidate("a"))

    def test_plain_takes_it_back(self) -> None:
        hopping = decoding("a").changed(remote_tokens=7.0)

        assert decoding("a") == plain(hopping)
        assert decoding("a") == plain(decoding("a"))


class TestOrder:
    def test_the_cost_of_a_hop_is_its_way_and_the_answers_that_become_slower(self) -> None:
        """20 ms + 1000 x 5 us + 4 neighbors x 100 tokens x 0.5 ms."""
        strategy = by_load()
        [candidate] = strategy.rank(divided(), [decoding("a", decodes=4)])

        assert 0.02 + 0.005 + 0.2 == pytest.approx(strategy.cost_s(divided(), candidate))

    def test_a_prefill_costs_what_stands_still(self) -> None:
        """10 ms + 1000 ms for each of two: itself, and one that runs."""
        strategy, request = by_load(), a_request(prompt_tokens=1000)

        assert 2.01 == pytest.approx(here_s(request, a_candidate("a", decodes=1)))
        assert 2.01 + 0.05 == pytest.approx(strategy.cost_s(request, a_candidate("a", decodes=1)))

    def test_the_least_loaded_comes_first(self) -> None:
        order = by_load().rank(
            divided(), [decoding("a", decodes=3), decoding("b", decodes=1), decoding("c", decodes=2)]
        )

        assert "bca" == "".join(candidate.worker for candidate in order)

    def test_of_equally_loaded_ones_the_one_that_holds_more(self) -> None:
        order = by_load().rank(divided(), [decoding("a"), decoding("b", hit_tokens=800)])

        assert "ba" == "".join(candidate.worker for candidate in order)

    def test_workers_that_cost_the_same_are_chosen_alike_by_all_replicas(self) -> None:
        workers = [decoding(name) for name in "abcdef"]
        first = by_load(ties=Rendezvous()).rank(divided("xyz"), workers)
        second = by_load(ties=Rendezvous()).rank(divided("xyz"), workers[::-1])

        assert [c.worker for c in first] == [c.worker for c in second]

    def test_those_that_cost_more_come_behind_them(self) -> None:
        workers = [decoding("a", decodes=9), decoding("b"), decoding("c")]
        order = by_load(ties=Rendezvous()).rank(divided("xyz"), workers)

        assert "a" == order[-1].worker

    def test_without_a_block_to_agree_on_the_order_is_by_chance(self) -> None:
        order = by_load(ties=Rendezvous()).rank(divided(), [decoding("a"), decoding("b")])

        assert ["a", "b"] == sorted(candidate.worker for candidate in order)

    def test_one_candidate_needs_no_ties(self) -> None:
        assert ["a"] == [c.worker for c in by_load(ties=Rendezvous()).rank(divided("xyz"), [decoding("a")])]

    def test_a_worker_that_cannot_compute_comes_last_for_undivided_requests(self) -> None:
        """However much the others have to do."""
        workers = [decoding("a"), a_candidate("b", backlog_s=60.0), decoding("c")]
        for ties in (None, Rendezvous()):
            order = by_load(HopRule(always=True), ties=ties).rank(a_request("xyz"), workers)

            assert "b" == order[0].worker

    @given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2000)), min_size=1, max_size=8))
    def test_every_candidate_is_there_once_and_costs_never_fall(self, loads: list[tuple[int, int]]) -> None:
        strategy, request = by_load(), divided(prompt_tokens=2000)
        workers = [decoding(f"w{i}", decodes=n, hit_tokens=float(hit)) for i, (n, hit) in enumerate(loads)]
        order = strategy.rank(request, workers)
        costs = [strategy.cost_s(request, candidate) for candidate in order]

        assert sorted(c.worker for c in workers) == sorted(c.worker for c in order)
        assert sorted(costs) == costs

    def test_it_explains_its_order_and_changes_nothing(self) -> None:
        strategy = by_load()
        workers = [decoding("a"), decoding("b")]
        before = [strategy.explain(divided(), workers).order for _ in range(3)]

        assert [strategy.rank(divided(), workers)] * 3 == before
        assert "random" == strategy.explain(divided(), workers).effective
        explained = strategy.explain(divided(), [decoding("a", decodes=1), decoding("b")])
        assert "load_alone" == explained.effective
        assert {A: 0.075, B: 0.025} == pytest.approx(explained.costs_s)


class TestWhetherItPays:
    """The decode worker would compute 1,000 tokens in 2.01 s, counted twice; a hop takes 25 ms besides the prefill."""

    def hopping(self, **load: float) -> Candidate:
        return decoding("d", **load).changed(remote_tokens=1000.0)

    def test_it_does_while_the_prefill_worker_is_soon_done(self) -> None:
        assert by_load().pays(divided(), self.hopping(), a_candidate("p", backlog_s=0.97))
        assert not by_load().pays(divided(), self.hopping(), a_candidate("p", backlog_s=0.98))

    def test_a_hit_there_counts(self) -> None:
        assert by_load().pays(divided(), self.hopping(), a_candidate("p", backlog_s=1.9, hit_tokens=960.0))

    def test_settings_that_say_when_are_obeyed(self) -> None:
        for rule in (HopRule(min_uncached_tokens=500), HopRule(always=True)):
            assert by_load(rule).pays(divided(), self.hopping(), a_candidate("p", backlog_s=60.0))


class TestFleetOfHalves:
    """Worker a computes prompts, b and c generate answers."""

    @pytest.fixture
    def fleet(self) -> Fleet:
        fleet = a_fleet(A, B, C)
        fleet.members.set_roles({A: "prefill", B: "decode", C: "decode"})
        return fleet

    def test_who_answers_is_a_candidate(self, fleet: Fleet) -> None:
        assert [B, C] == [each.worker for each in fleet.candidates(divided(), 0.0)]
        assert [True, True] == [each.fetches for each in fleet.candidates(divided(), 0.0)]
        assert [("a", "a prefill worker")] == [
            (each.candidate.worker, each.why_not) for each in fleet.excluded(divided(), 0.0)
        ]

    def test_who_computes_is_one_for_prompts(self, fleet: Fleet) -> None:
        assert [A] == [each.worker for each in fleet.prefill_candidates(divided(), 0.0)]
        assert [] == fleet.prefill_candidates(divided().changed(allowed=frozenset({B})), 0.0)
        fleet.set_up(A, up=False)
        assert [] == fleet.prefill_candidates(divided(), 0.0)

    def test_breakers_keep_from_prompts_too_unless_that_leaves_no_one(self, fleet: Fleet) -> None:
        fleet.members.set_roles({A: "prefill", B: "prefill"})
        for now in range(5):
            [candidate] = [c for c in fleet.prefill_candidates(divided(), float(now)) if c.worker == A][:1]
            booking = fleet.bookings.book(divided(), candidate, float(now))
            assert booking is not None
            fleet.bookings.release(booking, FAILED, float(now))

        assert [B] == [each.worker for each in fleet.prefill_candidates(divided(), 5.0)]
        fleet.set_up(B, up=False)
        assert [A] == [each.worker for each in fleet.prefill_candidates(divided(), 5.0)]

    def test_a_prefill_worker_is_nobodys_last_resort(self, fleet: Fleet) -> None:
        assert [] == [each.worker for each in fleet.cut_off(divided(), 0.0) if each.worker == A]

    def test_roles_are_kept_for_those_who_come_and_end_with_the_settings(self, fleet: Fleet) -> None:
        fleet.set_workers([B, C], 1.0)
        fleet.set_workers([A, B, C], 2.0)
        assert "prefill" == fleet.worker(A).role
        assert fleet.members.has_roles

        fleet.members.set_roles({})
        assert [A, B, C] == sorted(each.worker for each in fleet.candidates(divided(), 2.0))
        assert not fleet.members.has_roles

    def test_who_only_computes_does_not_answer(self, fleet: Fleet) -> None:
        assert [False, True, True] == [worker.is_answering for worker in fleet]
        fleet.set_asleep(B, asleep=True)
        assert [False, False, True] == [worker.is_answering for worker in fleet]


class TestBookingOfWhatIsFetched:
    @pytest.fixture
    def fleet(self) -> Fleet:
        fleet = a_fleet(A)
        fleet.members.set_roles({A: "decode"})
        return fleet

    def fetching(self, fleet: Fleet, request: Request) -> Candidate:
        [candidate] = fleet.candidates(request, 0.0)
        return candidate.changed(remote_tokens=request.prompt_tokens)

    def test_it_is_an_answer_and_no_prefill(self, fleet: Fleet) -> None:
        booking = fleet.bookings.book(divided(), self.fetching(fleet, divided()), 0.0)
        assert booking is not None
        load = fleet.worker(A).load(0.0)

        assert (0.0, 0, 1) == (load.backlog_s, load.pending, load.decodes)
        assert (True, 1.0) == (booking.is_remote, booking.uncached_tokens)
        assert booking.work_s > 1.0  # what its team is charged for, wherever it is done

    def test_it_teaches_nothing_of_prefills_but_of_the_pace_of_answers(self, fleet: Fleet) -> None:
        worker = fleet.worker(A)
        speed = worker.speed.prefill_tokens_per_s
        booking = fleet.bookings.book(divided(), self.fetching(fleet, divided()), 0.0)
        assert booking is not None
        fleet.bookings.first_byte(booking, 3.0)
        fleet.bookings.first_byte(booking, 4.0)  # no longer pending
        fleet.bookings.release(booking, Outcome(Ending.ANSWERED, 1000, 992, 101), 8.0)

        assert speed == worker.speed.prefill_tokens_per_s
        assert 0.05 == pytest.approx(worker.speed.usual_gap_s or 0.0)
        assert (0, 3.0) == (booking.decodes_beside, booking.first_byte_at)

    def test_hits_of_what_was_fetched_say_nothing_of_predictions(self, fleet: Fleet) -> None:
        worker = fleet.worker(A)
        for at in range(20):
            booking = fleet.bookings.book(divided("abcdefgh"), self.fetching(fleet, divided("abcdefgh")), float(at))
            assert booking is not None
            fleet.bookings.first_byte(booking, at + 0.1)
            fleet.bookings.release(booking, Outcome(Ending.ANSWERED, 1000, 0, 2), at + 0.2)

        assert not worker.hit_accuracy.predicted.is_unreliable

    def test_without_a_first_byte_it_is_not_there(self, fleet: Fleet) -> None:
        request = divided("ab", prompt_tokens=32)
        booking = fleet.bookings.book(request, self.fetching(fleet, request), 0.0)
        assert booking is not None
        fleet.bookings.release(booking, ABORTED, 1.0)
        fleet.bookings.first_byte(booking, 2.0)

        assert 0 == fleet.worker(A).in_flight
        assert [0] == [candidate.hit_blocks for candidate in fleet.candidates(request, 3.0)]

    def test_what_it_brought_is_held(self, fleet: Fleet) -> None:
        request = divided("ab", prompt_tokens=32).changed(prefix=prompt("ab"))
        booking = fleet.bookings.book(request, self.fetching(fleet, request), 0.0)
        assert booking is not None
        fleet.bookings.first_byte(booking, 0.5)
        fleet.bookings.release(booking, Outcome(Ending.ANSWERED), 1.0)

        assert [2] == [candidate.hit_blocks for candidate in fleet.candidates(request, 3.0)]

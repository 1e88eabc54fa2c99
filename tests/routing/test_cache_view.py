import pytest

from cache_index.event import Event, Removed, Tier
from tests.routing.confirmed_examples import MODEL, reporting_fleet, stored
from tests.routing.examples import (
    A,
    B,
    a_fleet,
    a_request,
    an_index,
    book,
    prompt,
)
from tests.routing.fleet_examples import hits


class TestHits:
    def test_a_booking_counts_as_present_at_once(self) -> None:
        """The next request of a burst hits what is on its way."""
        fleet = a_fleet(A, B)
        book(fleet, a_request("abc"), 0.0, B)
        a, b = fleet.candidates(a_request("abcd"), 0.0)

        assert (0, 0.0) == (a.hit_blocks, a.hit_tokens)
        assert (3, 48.0) == (b.hit_blocks, b.hit_tokens)

    def test_what_is_held_need_not_be_computed(self) -> None:
        """A hundred tokens, of which 48 are held."""
        fleet = a_fleet(A)
        book(fleet, a_request("abc"), 0.0)
        booking = book(fleet, a_request("abcd", prompt_tokens=100.0), 0.0)

        assert (1, 52.0) == (booking.new_blocks, booking.uncached_tokens)
        assert pytest.approx(0.01 + 52 / 1000) == booking.work_s

    def test_the_last_token_is_always_computed(self) -> None:
        """Even if the index holds the whole prompt."""
        fleet = a_fleet(A)
        book(fleet, a_request("abc"), 0.0)

        assert 1.0 == book(fleet, a_request("abc"), 0.0).uncached_tokens

    def test_a_prompt_that_does_not_read_the_cache_has_no_hit_tokens_and_is_recorded(self) -> None:
        """Prompt log-probabilities need the whole prompt computed; what it leaves in the cache serves others."""
        fleet = a_fleet(A)
        book(fleet, a_request("abc"), 0.0)
        reads_nothing = a_request("abcde", reads_cache=False)
        (candidate,) = fleet.candidates(reads_nothing, 0.0)
        booking = book(fleet, reads_nothing, 0.0)

        assert (0, 0.0) == (candidate.hit_blocks, candidate.hit_tokens)
        assert 80.0 == booking.uncached_tokens
        assert {A: 5} == hits(fleet, "abcde")

    def test_a_restarted_engine_holds_nothing(self) -> None:
        """The others keep what they have, and the capacity is known still."""
        index = an_index()
        fleet = a_fleet(A, B, index=index)
        fleet.set_capacity(A, blocks=2, block_size=16)
        book(fleet, a_request("abc"), 0.0, A)
        book(fleet, a_request("abc"), 0.0, B)
        fleet.engine_restarted(A)

        assert {B: 3} == hits(fleet, "abc")

        book(fleet, a_request("abc"), 0.0, A)

        assert 2 == index.held(A)


class TestCapacity:
    @pytest.mark.parametrize(
        ("blocks", "block_size", "held"),
        [(4, 16, 4), (4, 32, 8), (8, 8, 4), (1, 8, 0), (0, 16, 0), (1000, 16, 20)],
    )
    def test_it_is_converted_from_the_engines_blocks_to_ours(self, blocks: int, block_size: int, held: int) -> None:
        """Four bytes a token: 16 tokens are a block of 64 bytes."""
        index = an_index()
        fleet = a_fleet(A, index=index)
        fleet.set_capacity(A, blocks=blocks, block_size=block_size)
        book(fleet, a_request("abcdefghijklmnopqrst"), 0.0)

        assert held == index.held(A)

    def test_it_follows_the_token_ratio(self) -> None:
        """If a token turns out to be two bytes, the cache has room for half the text after the next tick."""
        index = an_index()
        fleet = a_fleet(A, index=index)
        fleet.set_capacity(A, blocks=100, block_size=16)
        for _ in range(20):
            fleet.bytes_per_token.learn(20_000, 10_000)
        fleet.tick(1.0)
        book(fleet, a_request("x" * 100), 2.0)

        assert 50 == index.held(A)


class TestTiers:
    """A GPU with four blocks. Blocks of the engine and of the index have the same size."""

    def room(self, *events: Event, trusted: bool = True) -> int:
        """Return how much room the index has after *events*. It holds nothing, so its room is its capacity."""
        index = an_index()
        fleet, confirmed = reporting_fleet(A, trusted=trusted, index=index)
        fleet.set_capacity(A, blocks=4, block_size=16)
        for event in events:
            confirmed.apply(A, event, model=MODEL)
        fleet.tick(1.0)
        return index.room(A)

    @pytest.mark.parametrize("tier", [Tier.CPU, Tier.DISK])
    def test_a_slower_tier_determines_the_capacity_if_it_is_larger(self, tier: Tier) -> None:
        """It held ten blocks when it removed one of them."""
        full = stored("abcdefghij", tier)

        assert 10 == self.room(full, Removed(full.hashes[-1:], tier))

    def test_a_smaller_tier_does_not(self) -> None:
        """Three blocks in host memory, for four on the GPU."""
        full = stored("abc", Tier.CPU)

        assert 4 == self.room(full, Removed(full.hashes[-1:], Tier.CPU))

    def test_a_tier_that_has_removed_nothing_has_room(self) -> None:
        """It holds ten blocks, and the four of the GPU may follow."""
        assert 14 == self.room(stored("abcdefghij", Tier.CPU))

    def test_a_shared_tier_is_not_the_worker_s(self) -> None:
        """Other workers fill it as well."""
        full = stored("abcdefghij", Tier.SHARED)

        assert 4 == self.room(full, Removed(full.hashes[-1:], Tier.SHARED))

    def test_reports_count_only_if_they_are_trusted(self) -> None:
        """Otherwise the index stands for the GPU alone."""
        full = stored("abcdefghij", Tier.CPU)

        assert 4 == self.room(full, Removed(full.hashes[-1:], Tier.CPU), trusted=False)


def test_the_index_holds_the_booked_prompt() -> None:
    """The fleet records the request's own prefix."""
    index = an_index()
    book(a_fleet(A, index=index), a_request("abc"), 0.0)

    assert {A: 3} == index.match(prompt("abc"))

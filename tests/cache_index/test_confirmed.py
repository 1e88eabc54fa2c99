from cache_index import WorkerId
from cache_index.confirmed import Confirmed
from cache_index.event import Cleared, Removed, Stored, Tier
from cache_index.hit import Hit
from cache_index.prefix import Prefix
from cache_index.residency import Residency
from cache_index.tokens import TokenHasher, pack, scope_of

A, B = WorkerId("a"), WorkerId("b")
HASHER = TokenHasher(bytes(32))
BLOCK_TOKENS = 4


def confirmed(lifetime_s: float = 5.0) -> Confirmed:
    return Confirmed(Residency(HASHER, max_bytes=1_000_000), lifetime_s=lifetime_s)


def ids_of(letters: str) -> list[int]:
    """Four tokens to the letter."""
    return [ord(letter) for letter in letters for _ in range(BLOCK_TOKENS)]


def prefix(letters: str) -> Prefix:
    return HASHER.prefix(pack(ids_of(letters)), block_size=BLOCK_TOKENS, scope=scope_of("tiny"))


def stored(letters: str, tier: Tier = Tier.GPU) -> Stored:
    """A sequence from its first block on; each hash is made of the letters up to its own."""
    hashes = [int.from_bytes(letters[:end].encode(), "big") for end in range(1, len(letters) + 1)]
    return Stored(hashes, None, ids_of(letters), BLOCK_TOKENS, tier)


def test_what_an_engine_reports_counts() -> None:
    """Reported blocks count for that worker until it reports their removal."""
    index = confirmed()
    index.apply(A, stored("abc"), model="tiny")

    assert {A: Hit(3)} == index.match(prefix("abcd"), 1e6)
    assert (3, 0) == (index.held(A), index.held(B))
    assert (BLOCK_TOKENS, None) == (index.block_size(A), index.block_size(B))

    index.apply(A, Cleared(), model="tiny")
    assert {} == index.match(prefix("abcd"), 1e6)


def test_a_prediction_counts_until_its_time_is_over() -> None:
    """Five seconds, to within a tenth."""
    index = confirmed()

    assert 3 == index.predict(A, prefix("abc"), 10.0)
    assert {A: Hit(3)} == index.match(prefix("abcd"), 14.8)
    assert {} == index.match(prefix("abcd"), 15.0)


def test_a_prediction_that_is_made_again_lives_on() -> None:
    """A prediction that is not repeated ends in its own time."""
    index = confirmed()
    index.predict(A, prefix("abcd"), 10.0)

    assert 0 == index.predict(A, prefix("ab"), 14.0)
    assert {A: Hit(2)} == index.match(prefix("abcd"), 15.5)
    assert {} == index.match(prefix("abcd"), 19.5)


def test_predictions_of_one_moment_end_together() -> None:
    """There may be thousands a second; they are not timed one by one."""
    index = confirmed()
    for i in range(10):
        index.predict(A, prefix("abcdefghij"[: i + 1]), 10.0 + i / 100)

    assert {A: Hit(10)} == index.match(prefix("abcdefghij"), 14.9)
    assert {} == index.match(prefix("abcdefghij"), 15.05)


def test_many_predictions_that_end_are_removed_bit_by_bit() -> None:
    """After a pause without requests, no request pays for all of them, and none of them counts any more."""
    index = confirmed()
    letters = [first + second for first in "abcdefghijklmnopqrst" for second in "abcdefghijklmnopqrst"]
    for each in letters:
        index.predict(A, prefix(each), 10.0)
    full = index.size_bytes

    assert {} == index.match(prefix(letters[-1]), 20.0)
    after_one = index.size_bytes
    assert full / 4 < after_one < full / 2
    index.predict(A, prefix("xyz"), 20.1)
    assert {A: Hit(3)} == index.match(prefix("xyz"), 20.1)
    assert index.size_bytes < after_one / 10
    assert {A: Hit(3)} == index.match(prefix("xyz"), 20.2)


def test_of_what_was_reported_and_what_is_predicted_the_longer_counts() -> None:
    """They are kept apart: the end of a prediction takes nothing of what was reported."""
    index = confirmed()
    index.apply(A, stored("ab"), model="tiny")
    index.apply(B, stored("abc", Tier.CPU), model="tiny")
    index.predict(A, prefix("abcd"), 10.0)
    index.predict(B, prefix("ab"), 10.0)

    assert {A: Hit(4), B: Hit(3, cpu=3)} == index.match(prefix("abcd"), 11.0)
    assert {A: Hit(2), B: Hit(3, cpu=3)} == index.match(prefix("abcd"), 16.0)


def test_a_prediction_can_be_taken_back() -> None:
    """The request failed: what it was to bring will not come; what was there stays."""
    index = confirmed()
    index.apply(A, stored("a"), model="tiny")
    index.predict(A, prefix("abc"), 10.0)
    index.retract(A, prefix("abc"), 1)

    assert {A: Hit(1)} == index.match(prefix("abc"), 10.0)


def test_a_worker_that_is_dropped_has_nothing() -> None:
    """Its reports and predictions are forgotten; those of others stay."""
    index = confirmed()
    for worker in (A, B):
        index.apply(worker, stored("ab"), model="tiny")
        index.predict(worker, prefix("xyz"), 10.0)
    index.drop(A)

    assert {B: Hit(2)} == index.match(prefix("ab"), 10.0)
    assert {B: Hit(3)} == index.match(prefix("xyz"), 10.0)


def test_a_shared_tier_is_for_all_workers_that_joined_its_model() -> None:
    """Worker a reported it, and b can load it."""
    index = confirmed()
    index.join(B, model="tiny")
    index.apply(A, stored("ab", Tier.SHARED), model="tiny")

    assert {A: Hit(2, shared=2), B: Hit(2, shared=2)} == index.match(prefix("ab"), 0.0)


def test_its_memory_is_that_of_both_parts() -> None:
    """Anomalies are counted."""
    index = confirmed()
    assert 0 == index.size_bytes

    index.apply(A, stored("ab"), model="tiny")
    reported_bytes = index.size_bytes
    index.predict(A, prefix("abc"), 10.0)
    index.apply(A, stored("ab"), model="tiny")

    assert 0 < reported_bytes < index.size_bytes
    assert 2 == index.counts.announced_again


def test_an_engine_has_a_hash_of_its_own_for_a_block() -> None:
    """The first block of a prompt; only if its GPU holds the block."""
    index = confirmed()
    index.apply(A, Stored([70, 71], None, ids_of("ab"), BLOCK_TOKENS), model="tiny")
    index.apply(B, Stored([80], None, ids_of("a"), BLOCK_TOKENS), model="tiny")

    assert (70, 80) == (index.engine_hash(A, prefix("abc")), index.engine_hash(B, prefix("abc")))
    assert (None, None) == (index.engine_hash(A, prefix("x")), index.engine_hash(WorkerId("c"), prefix("a")))
    assert (2, 0) == (index.held_in(A, Tier.GPU), index.held_in(A, Tier.SHARED))


def test_a_tier_s_capacity_shows_when_it_evicts() -> None:
    """A slower tier held two blocks when it removed one."""
    index = confirmed()
    index.apply(A, Stored([70, 71], None, ids_of("ab"), BLOCK_TOKENS, Tier.CPU), model="tiny")
    assert index.capacity_of(A, Tier.CPU) is None
    index.apply(A, Removed([71], Tier.CPU), model="tiny")

    assert 2 == index.capacity_of(A, Tier.CPU)


def test_one_tier_is_matched_alone() -> None:
    """Predictions say nothing about host memory."""
    hasher = TokenHasher(bytes(32))
    confirmed = Confirmed(Residency(hasher, max_bytes=1_000_000))
    ids = [7, 7, 8, 8]
    prompt = hasher.prefix(pack(ids), block_size=2, scope=scope_of("m"))
    confirmed.apply(WorkerId("a"), Stored([1, 2], None, ids, 2), model="m")
    confirmed.apply(WorkerId("a"), Stored([1], None, [], 0, Tier.CPU), model="m")
    confirmed.predict(WorkerId("b"), prompt, 0.0)

    assert {WorkerId("a"): 1} == confirmed.match_in(prompt, Tier.CPU)

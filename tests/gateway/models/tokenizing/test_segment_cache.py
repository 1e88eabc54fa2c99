"""Entries of the cache, and when they are forgotten."""

import gc
import tracemalloc

from gateway.models.tokenizing.segment_cache import LONGEST_KEY, SegmentCache

LONG = "x" * (LONGEST_KEY + 1)


def cache(max_bytes: int = 10_000) -> SegmentCache:
    return SegmentCache(max_bytes=max_bytes)


def test_what_was_put_is_found() -> None:
    """Under the same text."""
    kept = cache()
    kept.put(zip(kept.keys(["a", LONG]), [b"1", b"2"], strict=True))

    assert [b"1", b"2", None] == kept.get(kept.keys(["a", LONG, "b"]))


def test_a_long_text_is_not_kept() -> None:
    """Only its digest, which no one else can compute."""
    short, long = cache().keys(["a", LONG])

    assert "a" == short
    assert isinstance(long, bytes)
    assert 16 == len(long)
    assert [long] != cache().keys([LONG])


def test_what_was_used_last_stays() -> None:
    """Where there is no room for all."""
    kept = cache(max_bytes=400)
    kept.put([("a", b"1"), ("b", b"2")])
    kept.get(["a"])
    kept.put([("c", b"3")])

    assert [b"1", None, b"3"] == kept.get(["a", "b", "c"])


def test_the_budget_holds() -> None:
    """Also for what does not fit at all."""
    kept = cache(max_bytes=1_000)
    kept.put([(str(number), b"x" * 100) for number in range(100)])
    kept.put([("big", b"x" * 2_000)])

    assert kept.size_bytes <= 1_000


def test_putting_twice_counts_once() -> None:
    """Two threads may have made the same."""
    kept = cache()
    kept.put([("a", b"1")])
    size = kept.size_bytes
    kept.put([("a", b"1")])

    assert size == kept.size_bytes


def test_the_estimate_is_near_the_memory() -> None:
    """Within a fifth, for segments of usual sizes."""
    kept = cache(max_bytes=10**9)
    gc.collect()
    tracemalloc.start()
    try:
        keys = kept.keys([f"{number:06}" * 20 for number in range(20_000)])
        kept.put([(key, b"%120d" % number) for number, key in enumerate(keys)])
        del keys
        traced = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert 0.8 < kept.size_bytes / traced < 1.2

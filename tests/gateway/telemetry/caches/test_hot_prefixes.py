"""Literal requests with one block of 64 bytes per letter, and floods of prompts."""

import string

import pytest

from cache_index import Prefix
from gateway.telemetry.caches.hot_prefixes import DEPTHS, HALF_LIFE_S, HotPrefixes
from tests.routing.confirmed_examples import an_exact_request, exact_prefix
from tests.routing.examples import BLOCK_BYTES, a_request, prompt

SYSTEM = "SYSTEMSYSTEM"
"""A system prompt of 12 blocks, which is one of the depths."""


def a_sketch(max_counters: int = 2048) -> HotPrefixes:
    return HotPrefixes(block_bytes=BLOCK_BYTES, max_counters=max_counters)


def test_depths_are_two_for_each_power_of_two() -> None:
    assert (4, 6, 8, 12, 16, 24) == DEPTHS[:6]
    assert (768, 1024) == DEPTHS[-2:]


def test_a_shared_prefix_is_found_at_its_depth() -> None:
    """26 conversations begin with the same 12 blocks and then differ."""
    sketch = a_sketch()
    for letter in string.ascii_lowercase:
        sketch.add(a_request(SYSTEM + letter * 12), "tiny", "blue", 100.0)
    (hottest, *_) = sketch.hottest(10, 100.0)

    assert prompt(SYSTEM) == hottest.prefix
    assert prompt(SYSTEM).hashes[-8:].hex() == hottest.id
    assert ("tiny", 100.0) == (hottest.model, hottest.last_at)
    # The first request counted the depths 4 and 6, the second one 8 and 12.
    assert 25 * 0.6931471805599453 / 5 == pytest.approx(hottest.per_minute)


def test_one_request_makes_no_hot_prefix() -> None:
    sketch = a_sketch()
    sketch.add(a_request(SYSTEM), "tiny", "", 100.0)

    assert 2 == len(sketch)
    assert [] == sketch.hottest(10, 100.0)


def test_a_short_prompt_is_not_counted() -> None:
    sketch = a_sketch()
    sketch.add(a_request("abc"), "tiny", "", 100.0)

    assert 0 == len(sketch)


def test_the_prefix_with_most_tokens_comes_first() -> None:
    """Three requests for 6 blocks outweigh four requests for 4 blocks."""
    sketch = a_sketch()
    for _ in range(4):
        sketch.add(a_request("abcd"), "tiny", "", 100.0)
    for _ in range(3):
        sketch.add(a_request("efghij"), "tiny", "", 100.0)

    assert [prompt("efghij"), prompt("abcd")] == [each.prefix for each in sketch.hottest(10, 100.0)]
    assert [prompt("efghij")] == [each.prefix for each in sketch.hottest(1, 100.0)]


def test_both_prefixes_are_shown_if_most_requests_stop_at_the_shorter_one() -> None:
    """Two of six requests continue beyond 4 blocks."""
    sketch = a_sketch()
    for _ in range(2):
        sketch.add(a_request("abcdef"), "tiny", "", 100.0)
    for _ in range(4):
        sketch.add(a_request("abcd"), "tiny", "", 100.0)

    assert [4, 6] == [each.prefix.blocks for each in sketch.hottest(10, 100.0)]


def test_teams_have_their_share() -> None:
    sketch = a_sketch()
    for team in ("blue", "blue", "red", "blue"):
        sketch.add(a_request("abcd"), "tiny", team, 100.0)
    (hottest,) = sketch.hottest(10, 100.0)

    assert {"blue": 0.75, "red": 0.25} == {
        team: pytest.approx(per_minute / hottest.per_minute) for team, per_minute in hottest.teams.items()
    }


def test_only_eight_teams_are_remembered() -> None:
    sketch = a_sketch()
    for team in string.ascii_lowercase:
        sketch.add(a_request("abcd"), "tiny", team, 100.0)
    (hottest,) = sketch.hottest(10, 100.0)

    assert list("abcdefgh") == list(hottest.teams)


def test_weights_halve_with_time() -> None:
    sketch = a_sketch()
    for _ in range(8):
        sketch.add(a_request("abcd"), "tiny", "", 100.0)
    (now,), (later,) = sketch.hottest(1, 100.0), sketch.hottest(1, 100.0 + HALF_LIFE_S)

    assert now.per_minute / 2 == pytest.approx(later.per_minute)
    assert [] == sketch.hottest(1, 100.0 + 3 * HALF_LIFE_S)


def test_a_long_time_changes_nothing_but_the_base_of_the_weights() -> None:
    """Weights would overflow after some days."""
    sketch = a_sketch()
    for day in range(30):
        for _ in range(4):
            sketch.add(a_request("abcd"), "tiny", "blue", day * 86_400.0)
    (hottest,) = sketch.hottest(1, 29 * 86_400.0)

    assert 4 * 0.6931471805599453 / 5 == pytest.approx(hottest.per_minute)
    assert hottest.per_minute == pytest.approx(hottest.teams["blue"])


def test_exact_tokens_are_kept_from_the_second_request() -> None:
    """One block of text is one block of 16 tokens here."""
    sketch = a_sketch()
    sketch.add(an_exact_request("abcdef", more_tokens=0), "tiny", "", 100.0)
    sketch.add(an_exact_request("abcdef", more_tokens=0), "tiny", "", 100.0)
    (hottest,) = sketch.hottest(1, 100.0)

    assert (prompt("abcdef"), (exact_prefix("abcdef"),)) == (hottest.prefix, hottest.exact)


def test_a_flood_of_prompts_leaves_the_hot_prefix_and_the_bound() -> None:
    """3,000 prompts that no request repeats, and one in ten requests for the same prefix."""
    sketch = a_sketch(max_counters=100)
    letters = string.ascii_letters
    for number in range(3000):
        first, second, third = (letters[number // 50**place % 50] for place in range(3))
        sketch.add(a_request(first + second + third + "wxyz"), "tiny", "", 100.0)
        if number % 10 == 0:
            sketch.add(a_request(SYSTEM), "tiny", "", 100.0)
    assert 100 >= len(sketch)
    assert prompt(SYSTEM) == sketch.hottest(1, 100.0)[0].prefix


def test_all_hashes_of_a_deep_prefix_are_returned() -> None:
    """Each counter has only the hashes beyond its parent."""
    text = (string.ascii_letters * 20)[:1030]
    sketch = a_sketch()
    for _ in range(20):
        sketch.add(a_request(text), "tiny", "", 100.0)

    assert Prefix(prompt(text).hashes[: 1024 * 8]) in [each.prefix for each in sketch.hottest(20, 100.0)]


def test_cleared_prefixes_are_gone() -> None:
    sketch = a_sketch()
    for _ in range(4):
        sketch.add(a_request("abcd"), "tiny", "", 100.0)
    sketch.clear()

    assert [] == sketch.hottest(1, 100.0)


def test_many_sessions_of_several_requests_do_not_hide_their_system_prompt() -> None:
    """Each of 26 sessions repeats its own beginning five times."""
    sketch = a_sketch()
    for _ in range(5):
        for letter in string.ascii_lowercase:
            sketch.add(a_request(SYSTEM + letter * 12), "tiny", "", 100.0)
    found = sketch.hottest(100, 100.0)

    assert prompt(SYSTEM) == found[0].prefix
    assert 27 == len(found)

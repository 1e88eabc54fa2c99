"""Headers as OpenAI sends them, and as its SDKs read them."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tenancy.quota.limit import Level, Limit
from gateway.tenancy.quota.rate_headers import RateHeads, duration, refusal_headers
from gateway.tenancy.quota.scope import Scoped
from gateway.tenancy.teams.limits import Measure


def scoped(measure: Measure, amount: float) -> Scoped:
    return Scoped(Limit(measure, "rate", amount, burst=amount / 10), measure, "key", "ci", None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, b"0s"),
        (0.0001, b"1ms"),
        (0.012, b"12ms"),
        (0.9999, b"1s"),
        (1.0, b"1s"),
        (1.25, b"1.25s"),
        (8.64, b"8.64s"),
        (59.9991, b"1m0s"),
        (60.0, b"1m0s"),
        (360.0, b"6m0s"),
        (86.4, b"1m26.4s"),
        (3600.0, b"1h0m0s"),
        (86_399.25, b"23h59m59.25s"),
        (2_592_000.0, b"720h0m0s"),
    ],
)
def test_durations_are_written_as_openai_writes_them(seconds: float, text: bytes) -> None:
    assert text == duration(seconds)


@given(st.floats(0.0, 1e7))
def test_a_duration_says_no_less_than_it_is_and_at_most_a_millisecond_more(seconds: float) -> None:
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)(ms|s))?", duration(seconds).decode())
    assert found is not None
    hours, minutes, rest, unit = found.groups()
    read_s = int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(rest) / (1000 if unit == "ms" else 1)
    assert seconds - 1e-6 <= read_s <= seconds + 0.001 + 1e-6


def test_headers_show_the_limit_with_least_left() -> None:
    """More than that would not be granted, whatever other limits have room for."""
    heads = RateHeads(
        [
            scoped("requests_per_minute", 600),
            scoped("tokens_per_minute", 50_000),
            scoped("concurrent", 5),
            scoped("requests_per_minute", 6000),
            scoped("tokens_per_day", 1_000_000),
        ]
    )
    levels = (Level(59.0, 0.1), Level(4000.7, 1.2), Level(4.0, 0.0), Level(100.0, 50.0), Level(3000.0, 3600.0))

    assert (
        (b"x-ratelimit-limit-requests", b"600"),
        (b"x-ratelimit-remaining-requests", b"59"),
        (b"x-ratelimit-reset-requests", b"100ms"),
        (b"x-ratelimit-limit-tokens", b"1000000"),
        (b"x-ratelimit-remaining-tokens", b"3000"),
        (b"x-ratelimit-reset-tokens", b"1h0m0s"),
    ) == heads.headers_for(levels)


@given(
    st.lists(
        st.lists(
            st.builds(Level, st.sampled_from([0.0, 5.0, 5.9999, 6.0, 7.25]), st.sampled_from([0.0, 0.001, 61.5])),
            min_size=3,
            max_size=3,
        ),
        max_size=12,
    )
)
def test_cached_headers_are_never_stale(steps: list[list[Level]]) -> None:
    """Oracle: new heads without a cache."""
    of = [scoped("requests_per_minute", 60), scoped("tokens_per_minute", 600), scoped("tokens_per_day", 900)]
    heads = RateHeads(of)

    for levels in steps:
        assert RateHeads(of).headers_for(tuple(levels)) == heads.headers_for(tuple(levels))


def test_a_fraction_of_a_token_does_not_count() -> None:
    heads = RateHeads([scoped("tokens_per_minute", 50_000)])

    assert (b"x-ratelimit-remaining-tokens", b"4000") in heads.headers_for((Level(4000.99, 1.0),))
    assert (b"x-ratelimit-remaining-tokens", b"4000") in heads.headers_for((Level(3999.9999, 1.0),))


def test_missing_limits_have_no_headers() -> None:
    assert () == RateHeads([]).headers_for(())
    assert () == RateHeads([scoped("usd_per_month", 100), scoped("concurrent", 5)]).headers_for(
        (Level(1, 1), Level(1, 1))
    )
    names = [name for name, _ in RateHeads([scoped("output_tokens_per_minute", 100)]).headers_for((Level(1.0, 1.0),))]
    assert [b"x-ratelimit-limit-tokens", b"x-ratelimit-remaining-tokens", b"x-ratelimit-reset-tokens"] == names


def test_a_refusal_says_when_to_come_again() -> None:
    """Rounded up, to the second and to the millisecond: both are sufficient."""
    assert (
        (b"retry-after", b"2"),
        (b"retry-after-ms", b"1201"),
        (b"x-should-retry", b"true"),
    ) == refusal_headers(1.2004, again=True)
    assert (
        (b"retry-after", b"1"),
        (b"retry-after-ms", b"1"),
        (b"x-should-retry", b"true"),
    ) == refusal_headers(0.0, again=True)


def test_it_says_where_that_is_of_no_use() -> None:
    assert (b"x-should-retry", b"false") in refusal_headers(30.0, again=False)
    assert ((b"x-should-retry", b"false"),) == refusal_headers(math.inf, again=True)


def test_no_sdk_is_sent_to_sleep_for_longer_than_it_does() -> None:
    """openai-python takes no longer wait than two minutes for its own, and would be back at once."""
    assert (b"x-should-retry", b"true") in refusal_headers(120.0, again=True)
    assert (
        (b"retry-after", b"121"),
        (b"retry-after-ms", b"120500"),
        (b"x-should-retry", b"false"),
    ) == refusal_headers(120.5, again=True)

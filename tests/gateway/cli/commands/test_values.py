import re
from argparse import ArgumentTypeError
from collections.abc import Callable

import pytest

from gateway.cli.commands import values
from gateway.cli.commands.values import Expiry, LimitValue

NOON = 1_795_348_800.0
"""2026-11-22 12:00 in UTC."""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("requests_per_minute=600", LimitValue(None, "requests_per_minute", 600)),
        ("usd_per_month=99.5", LimitValue(None, "usd_per_month", 99.5)),
        ("concurrent=none", LimitValue(None, "concurrent", None)),
        ("max_concurrent_requests=8", LimitValue(None, "concurrent", 8)),
        ("soft_usd_per_day=2.5", LimitValue(None, "soft_usd_per_day", 2.5)),
        ("soft_tokens_per_month=9", LimitValue(None, "soft_tokens_per_month", 9)),
    ],
)
def test_a_limit_is_a_measure_and_an_amount(text: str, value: LimitValue) -> None:
    """Whole numbers but for money; none takes it away."""
    assert value == values.limit(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("tiny:tokens_per_day=5", LimitValue("tiny", "tokens_per_day", 5)),
        ("org/name:tag:concurrent=none", LimitValue("org/name:tag", "concurrent", None)),
    ],
)
def test_a_limit_may_be_that_of_a_model(text: str, value: LimitValue) -> None:
    """Names of models may have colons."""
    assert value == values.model_limit(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("1.5h", 5400), ("30d", 2_592_000), ("2w", 1_209_600)]
)
def test_a_time_has_a_unit(text: str, seconds: float) -> None:
    """Seconds without one."""
    assert seconds == values.duration_s(text)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("30d", "2026-12-22T12:00:00Z"),
        ("2026-12-31", "2026-12-31T00:00:00Z"),
        ("2026-12-31T12:00:00+01:00", "2026-12-31T12:00:00+01:00"),
        ("2026-12-31T12:00:00Z", "2026-12-31T12:00:00Z"),
        ("never", None),
    ],
)
def test_an_expiry_is_a_time_from_now_or_a_moment(text: str, time: str | None) -> None:
    """In UTC unless it says otherwise."""
    assert time == values.expiry(text).at_time(NOON)


def test_an_expiry_that_is_reported_late_counts_from_when_it_is_used() -> None:
    """Parsing it has no clock."""
    assert Expiry(after_s=3600.0) == values.expiry("1h")


@pytest.mark.parametrize(
    ("value_of", "text", "fault"),
    [
        (values.limit, "requests_per_minute", "'requests_per_minute' is not a limit such as requests_per_minute=600"),
        (values.limit, "rpm=5", "'rpm' is not one of requests_per_minute, input_tokens_per_minute,"),
        (values.limit, "concurrent=0", "concurrent is '0'; the value must be a positive whole number"),
        (values.limit, "concurrent=1.5", "concurrent is '1.5'; the value must be a positive whole number"),
        (values.limit, "concurrent=-1", "concurrent is '-1'; the value must be a positive whole number"),
        (values.limit, "concurrent=٣", "the value must be a positive whole number"),
        (values.limit, "usd_per_day=nan", "'nan' is not a number above 0"),
        (values.limit, "usd_per_day=inf", "'inf' is not a number above 0"),
        (
            values.model_limit,
            "concurrent=3",
            "'concurrent=3' is not a model limit such as MODEL:tokens_per_minute=10000",
        ),
        (
            values.model_limit,
            ":concurrent=3",
            "':concurrent=3' is not a model limit such as MODEL:tokens_per_minute=10000",
        ),
        (values.model_limit, "tiny:rpm=3", "'rpm' is not one of"),
        (values.duration_s, "-5s", "'-5s' is not a duration such as 90s, 15m, 12h or 30d"),
        (values.duration_s, "5y", "'5y' is not a duration"),
        (values.duration_s, "999999999999d", "is not a duration"),
        (
            values.expiry,
            "tomorrow",
            "'tomorrow' is not an expiry such as 30d, 2026-12-31, 2026-12-31T12:00:00Z or never",
        ),
        (values.month, "2026-13", "'2026-13' is not a month such as 2026-11"),
        (values.day, "2026-02-30", "'2026-02-30' is not a day such as 2026-11-21"),
        (values.day, "20261121", "'20261121' is not a day such as 2026-11-21"),
        (values.at_least_one, "0", "'0' is not a positive whole number"),
        (values.positive, "0", "'0' is not a number above 0"),
        (values.positive, "much", "'much' is not a number above 0"),
    ],
)
def test_what_is_not_one_is_reported_with_an_example(value_of: Callable[[str], object], text: str, fault: str) -> None:
    """Argparse puts the option before it."""
    with pytest.raises(ArgumentTypeError, match=re.escape(fault)):
        value_of(text)

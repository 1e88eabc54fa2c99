"""Facts about numbers and times on the pages."""

import pytest

from gateway.console import formats


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "–"), (0, "0"), (7, "7"), (0.25, "0.2"), (12.34, "12.3"), (123.4, "123"), (1234, "1,234")),
        *((9999, "9,999"), (12_345, "12.3 k"), (345_678, "346 k"), (1.5e6, "1.5 M"), (2.5e9, "2.5 G")),
    ],
)
def test_counts_have_three_digits_or_so(value: float | None, text: str) -> None:
    assert text == formats.count(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "–"), (0, "0 s"), (0.0004, "0.4 ms"), (0.12, "120 ms"), (1.5, "1.5 s"), (42, "42 s")),
        *((240, "4 min"), (9000, "2.5 h"), (641_160, "7.4 days"), (-0.12, "-120 ms")),
    ],
)
def test_durations_have_a_unit(value: float | None, text: str) -> None:
    assert text == formats.seconds(value)


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.0, "+0.0 %"), (0.034, "+3.4 %"), (-0.034, "-3.4 %"), (1.25, "+125 %")]
)
def test_differences_have_a_sign(value: float | None, text: str) -> None:
    assert text == formats.change(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "$0.00"), (0.00012, "$0.00012"), (1.5, "$1.50"), (12345.678, "$12,345.68"), (-1.5, "-$1.50")],
)
def test_amounts_are_in_dollars(value: float | None, text: str) -> None:
    assert text == formats.usd(value)


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (512, "512 B"), (1536, "1.5 KiB"), (2**31, "2.0 GiB")])
def test_sizes_are_in_bytes(value: float | None, text: str) -> None:
    assert text == formats.size(value)


def test_rates_and_shares() -> None:
    assert ("12.5/s", "–") == (formats.rate(12.5), formats.rate(None))
    assert ("31.2 %", "100.0 %", "–") == (formats.percent(0.312), formats.percent(1), formats.percent(None))


def test_times_are_in_utc() -> None:
    assert ("08:00:00", "–") == (formats.time_of_day(1_795_248_000), formats.time_of_day(None))
    assert "2026-11-21 08:00:00" == formats.moment("2026-11-21T09:00:00+01:00")
    assert "2026-11-21 08:00:00" == formats.moment(1_795_248_000.0)
    assert ("soon", "–") == (formats.moment("soon"), formats.moment(None))

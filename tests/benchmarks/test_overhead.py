from collections.abc import Mapping

import pytest

from benchmarks.bench import Arrival
from benchmarks.chat_bodies import LOADS, Load
from benchmarks.overhead import (
    WITH_ADMIN,
    WITH_KEYS,
    WITH_PAGES,
    WITH_RECEIPTS,
    WITH_RECORDS,
    fill,
    limits_of_the_setup,
    parse_arguments,
    ratios_per_cpu,
)
from benchmarks.report import Circumstances, Report
from tests.benchmarks.measurements import measured


def filled(rates: Mapping[Load, float]) -> Report:
    """A report on a gateway that reached *rates* where nginx reached 1,000."""
    report = Report("overhead", "Overhead", Circumstances.observe(seed=1, packages=()))
    found = [
        measured(target, per_s, load=load)
        for load in LOADS
        for target, per_s in (("stub", 2_000.0), ("nginx", 1_000.0), ("gateway", rates[load]))
    ]
    fill(report, found, [Arrival("stub", 101.0, 99.0)], stub="stub", judged="gateway")
    return report


def test_the_ratio_per_cpu_second_counts_what_each_used() -> None:
    """A proxy that needs twice the processor for half the rate costs four times as much."""
    found = [measured("nginx", 1_000.0, cpu=0.5), measured("gateway", 500.0, cpu=1.0)]

    assert 0.25 == ratios_per_cpu(found, "gateway", "requests").median


@pytest.mark.parametrize(
    ("requests", "streams", "is_met"), [(150.0, 900.0, True), (149.0, 900.0, False), (150.0, 899.0, False)]
)
def test_the_bars_are_shares_of_nginx(requests: float, streams: float, is_met: bool) -> None:
    """0.15 of nginx's requests and 0.9 of its streams are enough, less of either is not."""
    assert is_met == filled({"requests": requests, "streams": streams}).is_met


def test_the_report_has_a_table_per_load_and_one_of_packets() -> None:
    """What was measured is there to be read."""
    text = filled({"requests": 300.0, "streams": 1_100.0}).markdown()

    assert "| gateway | 300 (300 – 300) | 0.3 (0.3 – 0.3) |" in text
    assert "| gateway | 1,100 (1,100 – 1,100) | 1.1 (1.1 – 1.1) |" in text
    assert "| stub | 101 | 99 |" in text


def test_an_nginx_that_was_not_busy_is_reported() -> None:
    """Where stub worker and load were the limit, the reader hears that the ratio flatters."""
    found = [measured(name, 900.0, load=load, cpu=0.8) for load in LOADS for name in ("stub", "nginx")]

    notes = limits_of_the_setup(found, stub="stub")

    assert [True, True] == ["nginx used 80% of its core, at 100% of the rate" in note for note in notes]


def test_a_machine_that_was_not_quiet_is_reported() -> None:
    """Where other processes used the cores, the reader hears that and nothing finer."""
    found = [measured(name, 900.0, load=load, cpu=0.5, noise=0.4) for load in LOADS for name in ("stub", "nginx")]

    (note,) = limits_of_the_setup(found, stub="stub")

    assert "took 40% of the proxy's core" in note


def test_a_quiet_machine_with_a_busy_nginx_needs_no_note() -> None:
    """Nothing is said where nothing stood in the way."""
    found = [measured(name, 900.0, load=load, cpu=0.99) for load in LOADS for name in ("stub", "nginx")]

    assert [] == limits_of_the_setup(found, stub="stub")


def test_with_the_keys_only_the_report_is_of_requests() -> None:
    report = Report("overhead", "Overhead", Circumstances.observe(seed=1, packages=()))
    rates = {"stub": 2_000.0, "nginx": 1_000.0, "gateway": 600.0, f"gateway{WITH_KEYS}": 400.0}
    found = [measured(target, per_s, load="requests", cpu=0.8) for target, per_s in rates.items()]
    fill(report, found, [], stub="stub", judged="gateway")
    (bar,) = [bar for bar in report.bars if "five limits" in bar.what]

    assert pytest.approx(400.0 / 600.0) == bar.value
    assert (0.95, False) == (bar.limit, bar.is_met)
    assert 1 == len(report.tables)


def test_records_are_compared_with_the_gateway_without_them() -> None:
    """A share of 0.992 of the answers per second of processor time is enough, and 0.98 is not. With open pages it is.

    The gateway without an admin key, which is faster, does not count.
    """
    report = Report("overhead", "Overhead", Circumstances.observe(seed=1, packages=()))
    rates = {"stub": 2_000.0, "nginx": 1_000.0, "gateway": 600.0, f"gateway{WITH_ADMIN}": 500.0}
    rates |= {f"gateway{WITH_RECEIPTS}": 496.0, f"gateway{WITH_RECORDS}": 490.0, f"gateway{WITH_PAGES}": 490.0}
    found = [measured(target, per_s, load="requests", cpu=0.8) for target, per_s in rates.items()]
    fill(report, found, [], stub="stub", judged="gateway")
    bars = [bar for bar in report.bars if "receipts" in bar.what]

    assert [pytest.approx(0.992), pytest.approx(0.98), pytest.approx(0.98)] == [bar.value for bar in bars]
    assert [True, False, True] == [bar.is_met for bar in bars]


def test_with_the_records_only_nothing_is_compared_with_nginx() -> None:
    report = Report("records", "Records", Circumstances.observe(seed=1, packages=()))
    rates = {f"gateway{WITH_ADMIN}": 500.0, f"gateway{WITH_RECORDS}": 499.0}
    found = [measured(target, per_s, load="requests", cpu=0.8) for target, per_s in rates.items()]
    fill(report, found, [], stub="stub", judged="gateway")

    assert [pytest.approx(0.998), 0] == [bar.value for bar in report.bars]
    assert f"| gateway{WITH_ADMIN} | 500 (500 – 500) | – |" in report.markdown()


def test_the_records_have_more_and_shorter_rounds() -> None:
    assert (5, 5.0) == (parse_arguments([]).rounds, parse_arguments([]).seconds)
    assert (40, 2.0) == (parse_arguments(["--records-only"]).rounds, parse_arguments(["--records-only"]).seconds)

import asyncio
import json
import random
from collections.abc import Mapping

import pytest

from benchmarks.overhead import (
    LOADS,
    PROMPTS,
    WITH_KEYS,
    Arrival,
    Load,
    Measurement,
    bodies,
    fill,
    limits_of_the_setup,
    packets_per_stream,
    parse_arguments,
    ratios,
    ratios_per_cpu,
)
from benchmarks.report import Circumstances, Report, Spread
from benchmarks.stub_worker import EVENTS_PER_STREAM, serve, write_script


def measured(
    target: str, per_s: float, *, load: Load = "requests", round_number: int = 0, cpu: float = 1.0, noise: float = 0.0
) -> Measurement:
    return Measurement(
        target=target,
        load=load,
        round=round_number,
        per_s=per_s,
        p50_ms=1.0,
        p99_ms=2.0,
        target_cpu=cpu,
        stub_cpu=0.5,
        others_on_proxy_core=noise,
        others_on_load_core=0.0,
        errors=0,
    )


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


def test_bodies_differ_and_share_their_system_prompt() -> None:
    """64 prompts of 1.2 kB: one beginning, different ends."""
    texts = bodies("requests", random.Random(1))
    messages = [json.loads(text)["messages"] for text in texts]

    assert PROMPTS == len(set(texts))
    assert 1 == len({each[0]["content"] for each in messages})
    assert all(1_100 <= len(text) <= 1_300 for text in texts)


def test_the_same_seed_gives_the_same_bodies() -> None:
    """A run can be repeated; only ``stream`` tells the two kinds of load apart."""
    plain, streamed = bodies("requests", random.Random(1))[0], bodies("streams", random.Random(1))[0]

    assert bodies("requests", random.Random(1))[0] == plain
    assert {**json.loads(plain), "stream": True} == json.loads(streamed)


def test_a_ratio_compares_measurements_of_one_round() -> None:
    """A machine that slows down between rounds does not move the ratio."""
    found = [
        measured("nginx", 1_000.0, round_number=0),
        measured("gateway", 300.0, round_number=0),
        measured("nginx", 500.0, round_number=1),
        measured("gateway", 150.0, round_number=1),
    ]

    assert Spread(median=0.3, lowest=0.3, highest=0.3, rounds=2) == ratios(found, "gateway", "requests")


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


def test_an_nginx_that_was_not_busy_is_told() -> None:
    """Where stub worker and load were the limit, the reader hears that the ratio flatters."""
    found = [measured(name, 900.0, load=load, cpu=0.8) for load in LOADS for name in ("stub", "nginx")]

    notes = limits_of_the_setup(found, stub="stub")

    assert [True, True] == ["nginx used 80% of its core, at 100% of the rate" in note for note in notes]


def test_a_machine_that_was_not_quiet_is_told() -> None:
    """Where other processes used the cores, the reader hears that and nothing finer."""
    found = [measured(name, 900.0, load=load, cpu=0.5, noise=0.4) for load in LOADS for name in ("stub", "nginx")]

    (note,) = limits_of_the_setup(found, stub="stub")

    assert "took 40% of the proxy's core" in note


def test_a_quiet_machine_with_a_busy_nginx_needs_no_note() -> None:
    """Nothing is said where nothing stood in the way."""
    found = [measured(name, 900.0, load=load, cpu=0.99) for load in LOADS for name in ("stub", "nginx")]

    assert [] == limits_of_the_setup(found, stub="stub")


async def test_packets_of_a_stream_are_counted_by_the_kernel() -> None:
    """A stream comes in at least one packet and at most one per write: head, events, [DONE]."""
    server = await serve(write_script("tiny"))
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    packets = await asyncio.to_thread(packets_per_stream, url, b'{"stream": true}', streams=2)
    server.close()

    assert 1 <= packets <= EVENTS_PER_STREAM + 2


def test_with_the_keys_only_the_report_is_of_requests() -> None:
    """And the bar of keys holds answers per processor second against those without keys, round by round."""
    report = Report("overhead", "Overhead", Circumstances.observe(seed=1, packages=()))
    rates = {"stub": 2_000.0, "nginx": 1_000.0, "gateway": 600.0, f"gateway{WITH_KEYS}": 400.0}
    found = [measured(target, per_s, load="requests", cpu=0.8) for target, per_s in rates.items()]
    fill(report, found, [], stub="stub", judged="gateway")
    (bar,) = [bar for bar in report.bars if "five limits" in bar.what]

    assert pytest.approx(400.0 / 600.0) == bar.value
    assert (0.9, False) == (bar.limit, bar.is_met)
    assert 1 == len(report.tables)


def test_uvicorn_is_the_implementation_judged_by_default() -> None:
    """The bars are held against the first implementation named."""
    assert "uvicorn,granian" == parse_arguments([]).implementations

import asyncio

import pytest

from benchmarks.bench import packets_per_stream, ratios
from benchmarks.report import Spread
from benchmarks.stub_worker import EVENTS_PER_STREAM, serve, write_script
from tests.benchmarks.measurements import measured


def test_a_ratio_compares_measurements_of_one_round() -> None:
    """A machine that slows down between rounds does not move the ratio."""
    found = [
        measured("nginx", 1_000.0, round_number=0),
        measured("gateway", 300.0, round_number=0),
        measured("nginx", 500.0, round_number=1),
        measured("gateway", 150.0, round_number=1),
    ]

    assert Spread(median=0.3, lowest=0.3, highest=0.3, rounds=2) == ratios(found, "gateway", "requests")


def test_rounds_that_only_one_has_are_left_out() -> None:
    """Where the other could not be measured there is nothing to compare with."""
    found = [measured("nginx", 1_000.0), measured("gateway", 300.0), measured("gateway", 9.0, round_number=1)]

    assert Spread(median=0.3, lowest=0.3, highest=0.3, rounds=1) == ratios(found, "gateway", "requests")
    with pytest.raises(ValueError):
        ratios(found, "gateway", "requests", "somebody else")


async def test_packets_of_a_stream_are_counted_by_the_kernel() -> None:
    """A stream comes in at least one packet and at most one per write: head, events, [DONE]."""
    server = await serve(write_script("tiny"))
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    packets = await asyncio.to_thread(packets_per_stream, url, b'{"stream": true}', streams=2)
    server.close()

    assert 1 <= packets <= EVENTS_PER_STREAM + 2

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from benchmarks.gauges import gauges, work_left, work_under_way
from tests.benchmarks.listening import listening

GAUGES = b"""# TYPE warmgate_requests_in_flight gauge
warmgate_requests_in_flight{model="tiny"} 3
# TYPE warmgate_worker_in_flight gauge
warmgate_worker_in_flight{worker="http://127.0.0.1:1"} 1
warmgate_worker_in_flight{worker="http://127.0.0.1:2"} 2
# TYPE warmgate_worker_backlog_tokens gauge
warmgate_worker_backlog_tokens{worker="http://127.0.0.1:1"} 0
# TYPE warmgate_requests_in_flight_total counter
warmgate_requests_in_flight_total 9
# TYPE warmgate_index_bytes gauge
warmgate_index_bytes 5
"""
IN_FLIGHT = b"# TYPE warmgate_requests_in_flight gauge\nwarmgate_requests_in_flight %d\n"


@asynccontextmanager
async def telling(pages: Iterator[bytes]) -> AsyncIterator[str]:
    """The URL of a server that answers every request with the next of *pages*."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        page = next(pages)
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(page), page))

    async with listening(answer) as url:
        yield url


async def test_gauges_are_reported_with_their_labels() -> None:
    """Every reading of every gauge, and no counter."""
    async with telling(iter([GAUGES])) as url:
        found = await gauges(url)

    assert ("warmgate_worker_in_flight", {"worker": "http://127.0.0.1:2"}, 2.0) in found
    assert 5 == len(found)


async def test_gauges_of_work_under_way_are_summed_over_workers() -> None:
    """What is in flight, booked or in a backlog is found by name; counters and other gauges are not."""
    expected = {
        "warmgate_requests_in_flight{model=tiny}": 3.0,
        "warmgate_worker_in_flight": 3.0,
        "warmgate_worker_backlog_tokens": 0.0,
    }

    async with telling(iter([GAUGES])) as url:
        assert expected == await work_under_way(url)


async def test_gauges_may_take_a_moment_to_come_to_rest() -> None:
    """They are asked for again until all are 0."""
    async with telling(IN_FLIGHT % number for number in (2, 1, 0)) as url:
        assert {"warmgate_requests_in_flight": 0.0} == await work_left(url)

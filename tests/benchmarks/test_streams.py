import asyncio
from collections.abc import AsyncIterator

import pytest

from benchmarks.flood_worker import Flood
from benchmarks.memory import MIB, Prompts, address
from benchmarks.processes import ChildFailedError
from benchmarks.report import Circumstances, Report
from benchmarks.streams import (
    KIB,
    MAX_SENT_SHARE,
    Hold,
    Reading,
    Stream,
    not_whole,
    open_streams,
    parse_arguments,
    tell_open,
    tell_slow,
)
from benchmarks.stub_worker import EVENTS_PER_STREAM, Pace, serve, write_script
from tests.benchmarks.listening import listening

PROMPTS = Prompts(seed=1)
REQUESTS = [PROMPTS.request(number, streams=True) for number in range(5)]
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def report() -> Report:
    return Report("streams", "Streams", Circumstances.observe(seed=1, packages=()))


def verdicts(found: Report) -> dict[str, bool]:
    return {bar.what: bar.is_met for bar in found.bars}


@pytest.fixture
async def stub_url() -> AsyncIterator[str]:
    async with await serve(write_script("tiny"), pace=Pace(event_s=0.002)) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_streams_that_come_through_are_whole(stub_url: str) -> None:
    """All events and [DONE], on a connection each."""
    streams = await open_streams(stub_url, REQUESTS)

    assert 5 == len(streams)
    assert 0 == await not_whole(streams, events=EVENTS_PER_STREAM)
    assert 5 == await not_whole(streams, events=EVENTS_PER_STREAM + 1)


@pytest.mark.parametrize(
    ("answer", "is_whole"),
    [
        ([HEAD, chunk(b'data: {"id":1}\n\n'), chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n"], True),
        ([HEAD, chunk(b'data: {"i'), chunk(b'd":1}\n\ndata: [DO'), chunk(b"NE]\n\n"), b"0\r\n\r\n"], True),
        ([HEAD, chunk(b'data: {"id":1}\n\n'), chunk(b"data: [DONE]\n\n")], False),
        ([HEAD, chunk(b'data: {"id":1}\n\n'), chunk(b'data: {"error":{}}\n\n'), b"0\r\n\r\n"], False),
        ([HEAD, chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n"], False),
    ],
    ids=["whole", "an event in two pieces", "cut off", "an error event", "an event too few"],
)
async def test_a_stream_is_whole_with_all_events_and_an_end(answer: list[bytes], is_whole: bool) -> None:
    """However HTTP cuts it into chunks."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"".join(answer))
        writer.close()

    async with listening(speak) as url:
        loop = asyncio.get_running_loop()
        _, stream = await loop.create_connection(lambda: Stream(REQUESTS[0], stops=False), *address(url))
        await stream.done

    assert is_whole == stream.is_whole(1)


async def test_a_stream_that_is_refused_stops_the_run() -> None:
    """A stream that never began is an error, not a stream the fewer."""

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with listening(hang_up) as url:
        with pytest.raises(ChildFailedError, match="1 of 1 streams did not begin"):
            await open_streams(url, REQUESTS[:1])


async def test_a_slow_reader_reads_nothing_until_asked_to() -> None:
    """It has the first events, and all of them once it has read on."""
    flood = Flood(write_script("tiny"), stream_bytes=16 * MIB)
    async with listening(flood.serve) as url:
        (stream,) = await open_streams(url, REQUESTS[:1], stops=True)
        had = stream.events
        await asyncio.sleep(0.1)

        assert 0 < had == stream.events < flood.events

        stream.read_on()

        assert 0 == await not_whole([stream], events=flood.events)


def test_the_cost_of_a_stream_is_the_slope() -> None:
    """What the first streams pay for once does not count: from 100 to 1,000 it is 45 MiB here, 51.2 KiB for each."""
    found = report()
    readings = [
        Reading(0, 0, 70 * MIB, 0),
        Reading(100, 100, 90 * MIB, 0),
        Reading(1_000, 1_000, 135 * MIB, 0),
        Reading(0, 0, 135 * MIB, 0),
    ]

    tell_open(found, readings, broken=0, left={"warmgate_requests_in_flight": 0.0})

    assert 51.2 == pytest.approx(found.bars[0].value)
    assert found.is_met


def test_streams_that_were_not_all_open_are_reported() -> None:
    """Neither memory of fewer streams, nor broken ones, nor gauges that stay pass for a result."""
    found = report()
    readings = [
        Reading(0, 0, 0, 0),
        Reading(100, 100, 0, 0),
        Reading(1_000, 999, 900 * 65 * KIB, 0),
        Reading(0, 0, 0, 0),
    ]

    tell_open(found, readings, broken=1, left={"warmgate_requests_in_flight": 1.0})

    assert {False} == set(verdicts(found).values())


def test_a_slow_readers_share_is_held_against_the_buffers() -> None:
    """16 readers and 18 MiB: 1,152 KiB each."""
    found = report()
    hold = Hold(highest_rss_bytes=88 * MIB, sent_bytes=[8 * MIB] * 16, still_s=3.1)

    tell_slow(
        found, Reading(0, 0, 70 * MIB, 0), hold, Reading(0, 0, 80 * MIB, 0), stream_bytes=64 * MIB, broken=0, left={}
    )

    assert 1_152 == found.bars[0].value
    assert found.is_met


def test_a_gateway_that_reads_on_for_a_slow_reader_is_reported() -> None:
    """The worker was never held back, memory took the stream, and the reader did not get it."""
    found = report()
    hold = Hold(highest_rss_bytes=134 * MIB, sent_bytes=[int(64 * MIB * (MAX_SENT_SHARE + 0.1))], still_s=0.5)

    tell_slow(
        found,
        Reading(0, 0, 70 * MIB, 0),
        hold,
        Reading(0, 0, 80 * MIB, 0),
        stream_bytes=64 * MIB,
        broken=1,
        left={"warmgate_requests_in_flight": 1.0},
    )

    assert {False} == set(verdicts(found).values())


def test_a_slope_needs_two_streams(capsys: pytest.CaptureFixture[str]) -> None:
    """One is refused, with what to do."""
    with pytest.raises(SystemExit):
        parse_arguments(["--streams", "1"])

    assert "--streams must be at least 2" in capsys.readouterr().err

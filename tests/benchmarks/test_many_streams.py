import asyncio
from contextlib import suppress

import pytest

from benchmarks.many_streams import (
    DIRECT,
    OURS,
    Events,
    Found,
    Stream,
    counted_in_flight,
    events_of,
    parse_arguments,
    tell,
    watch,
)
from benchmarks.memory import Prompts, address
from benchmarks.processes import ChildFailedError
from benchmarks.report import Circumstances, Report
from benchmarks.timed_worker import serving
from tests.benchmarks.listening import listening

PROMPTS = Prompts(seed=1)
REQUESTS = [PROMPTS.request(number, streams=True) for number in range(5)]
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


def event(sent_at: int) -> bytes:
    return b'8\r\n{"content":" t%d"}\r\n' % sent_at


def found(name: str, **changed: float) -> Found:
    values = {
        "streams": 5,
        "failed": 0,
        "events": 100,
        "p50_ms": 0.2,
        "p99_ms": 1.0,
        "p999_ms": 2.0,
        "longest_ms": 3.0,
        "core": None,
        "kib_per_stream": None,
        "in_flight": 5.0,
        **changed,
    }
    return Found(name, **values)  # type: ignore[arg-type]


def report() -> Report:
    return Report("many_streams", "Streams", Circumstances.observe(seed=1, packages=()))


@pytest.mark.e2e
async def test_streams_are_watched_while_all_are_open() -> None:
    """All come whole, and their events took some time, but no longer than the watching."""
    async with serving(events=8, interval_s=0.05) as url:
        seen = await watch(url, REQUESTS, events=8, name="worker", target=None, watch_s=0.1)

    assert ("worker", 5, 0, None, None) == (seen.target, seen.streams, seen.failed, seen.core, seen.kib_per_stream)
    assert 5 <= seen.events <= 40
    assert 0 < seen.p50_ms <= seen.p99_ms <= seen.p999_ms <= seen.longest_ms < 10_000


@pytest.mark.e2e
async def test_a_stream_with_an_event_too_few_has_failed() -> None:
    """Each of them."""
    async with serving(events=8, interval_s=0.05) as url:
        seen = await watch(url, REQUESTS, events=9, name="worker", target=None, watch_s=0.1)

    assert 5 == seen.failed


@pytest.mark.e2e
async def test_a_stream_that_is_refused_has_failed() -> None:
    """The others are watched all the same."""
    refused = b"GET /nowhere HTTP/1.1\r\n\r\n"
    async with serving(events=8, interval_s=0.05) as url:
        seen = await watch(url, [*REQUESTS, refused], events=8, name="worker", target=None, watch_s=0.1)

    assert (6, 1) == (seen.streams, seen.failed)


@pytest.mark.parametrize(
    ("answer", "is_whole"),
    [
        ([HEAD, event(1), event(2), END], True),
        ([HEAD + event(1)[:9], event(1)[9:] + event(2)[:20], event(2)[20:] + END[:9], END[9:]], True),
        ([HEAD, event(1), END], False),
        ([HEAD, event(1), event(2), END[:-5]], False),
        ([HEAD, event(1), event(2), b"0\r\n\r\n"], False),
        ([HEAD.replace(b"200", b"502"), event(1), event(2), END], False),
    ],
    ids=["whole", "in other pieces", "an event too few", "cut off", "without [DONE]", "another status"],
)
async def test_a_stream_is_whole_with_all_events_and_an_end(answer: list[bytes], is_whole: bool) -> None:
    """However the network cuts it."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):  # it leaves where the status is another
            for piece in answer:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.001)
        writer.close()

    async with listening(speak) as url:
        _, stream = await asyncio.get_running_loop().create_connection(
            lambda: Stream(REQUESTS[0], Events()), *address(url)
        )
        async with asyncio.timeout(60):
            await stream.done

    assert is_whole == stream.is_whole(2)


async def test_streams_that_are_all_refused_stop_the_run() -> None:
    """There is nothing to measure."""

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with listening(hang_up) as url:
        with pytest.raises(ChildFailedError, match="nobody: no stream began"):
            await watch(url, REQUESTS[:2], events=1, name="nobody", target=None)


async def test_streams_under_way_are_counted_over_all_models() -> None:
    """The gauge of that name, and no other."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        lines = (
            b"# TYPE warmgate_requests_in_flight gauge",
            b'warmgate_requests_in_flight{model="tiny"} 4999.0',
            b'warmgate_requests_in_flight{model="other"} 1.0',
            b'warmgate_worker_in_flight{model="tiny",worker="a"} 7.0',
        )
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"\n".join(lines) + b"\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]

        assert 5000.0 == await counted_in_flight(f"http://127.0.0.1:{port}")


def test_only_what_comes_while_all_are_open_counts() -> None:
    """From the first moment on, and before the last."""
    events = Events()
    for came, took in ((10, 1), (20, 2), (30, 3), (40, 4)):
        events.add(came, took)

    assert [2, 3] == events.between(20, 40).tolist()


def test_what_the_gateway_adds_is_held_against_the_bar() -> None:
    """1 ms of 7.5 is there without it."""
    reported = report()

    tell(reported, [found(DIRECT), found(OURS, p99_ms=7.5)], unsettled=0)

    assert 6.5 == reported.bars[2].value
    assert reported.is_met


def test_failures_are_reported() -> None:
    """Streams that broke, that were not all open, that came late, and gauges that stay."""
    reported = report()

    tell(reported, [found(DIRECT), found(OURS, failed=1, in_flight=4.0, p99_ms=12.0)], unsettled=1)

    assert [False] * 4 == [bar.is_met for bar in reported.bars]


def test_streams_last_until_the_watching_is_over() -> None:
    """5,000 are opened in 10 s, or 20 on a busy machine, and watched for 20, with 5 to spare."""
    assert 45 == events_of(parse_arguments([]))


def test_there_is_a_stream_at_least(capsys: pytest.CaptureFixture[str]) -> None:
    """None is refused, with what to do."""
    with pytest.raises(SystemExit):
        parse_arguments(["--streams", "0"])

    assert "--streams must be at least 1" in capsys.readouterr().err

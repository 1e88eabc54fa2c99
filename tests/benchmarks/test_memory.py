import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from benchmarks.memory import (
    KINDS,
    MIB,
    PROMPT_CHARACTERS,
    Mix,
    Prompts,
    Sample,
    growth_bytes,
    send_all,
    visit,
)
from benchmarks.processes import ChildFailedError
from benchmarks.stub_worker import Pace, serve, write_script


@pytest.fixture
async def url() -> AsyncIterator[str]:
    pace = Pace(first_byte_s=0.02, event_s=0.0005)
    server = await serve(write_script("tiny"), pace=pace)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def samples(*rss_mib: float) -> list[Sample]:
    """Readings spread evenly over 1,000 requests."""
    last = len(rss_mib) - 1
    return [Sample(1_000 * place // last, int(mib * MIB), 0) for place, mib in enumerate(rss_mib)]


def test_prompts_differ_from_their_first_characters_on() -> None:
    """No two prompts share a block, and each is a request of 2,000 tokens."""
    prompts = Prompts(seed=1)
    texts = [
        json.loads(prompts.request(number).partition(b"\r\n\r\n")[2])["messages"][0]["content"]
        for number in range(1_000)
    ]

    assert {PROMPT_CHARACTERS} == {len(text) for text in texts}
    assert 1_000 == len({text[:9] for text in texts})


def test_the_same_seed_gives_the_same_prompts() -> None:
    """A run can be repeated."""
    assert Prompts(seed=1).request(7) == Prompts(seed=1).request(7)
    assert Prompts(seed=2).request(7) != Prompts(seed=1).request(7)


def test_a_prompt_can_be_asked_for_as_a_stream() -> None:
    """The same prompt, and ``stream`` beside it."""
    plain, streamed = (
        json.loads(Prompts(seed=1).request(7, streams=streams).partition(b"\r\n\r\n")[2]) for streams in (False, True)
    )

    assert {**plain, "stream": True} == streamed


async def test_all_requests_are_sent_and_their_answers_counted() -> None:
    """A few connections carry every request, each once."""
    server = await serve(write_script("tiny"))
    prompts = Prompts(seed=1)
    statuses = await send_all(
        f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}",
        (prompts.request(number) for number in range(100)),
        connections=8,
    )
    server.close()

    assert Counter({200: 100}) == statuses


async def test_a_gateway_that_hangs_up_stops_the_run() -> None:
    """A closed connection is an error, not a request the fewer."""

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ChildFailedError, match="closed a connection"):
        await send_all(f"http://127.0.0.1:{port}", iter([Prompts(seed=1).request(0)]), connections=1)
    server.close()


def test_memory_that_levels_off_has_not_grown() -> None:
    """Growth is counted from the warm-up on, and 16 MiB are allowed where 5 % would be less."""
    assert (0, 16 * MIB) == growth_bytes(samples(30, 60, 80, 90, 99, 100, 100, 99, 100, 99, 100))


def test_memory_that_keeps_growing_shows() -> None:
    """A steady leak after the warm-up is counted from its first tenth to its last."""
    assert (80 * MIB, 20 * MIB) == growth_bytes(samples(0, 80, 160, 240, 320, 380, 400, 420, 440, 460, 480))


@pytest.mark.parametrize(
    "name",
    ["answered", "streamed", "aborted before the first byte", "aborted mid-stream", "left in the middle of the body"],
)
async def test_each_kind_ends_as_it_should(url: str, name: str) -> None:
    """The visits that need no gateway end the same way at a bare worker."""
    # The worker keeps its connections; a visitor who reads to the end must be let go.
    async with asyncio.timeout(60):
        assert KINDS[name].outcome == await visit(url, KINDS[name], random.Random(1))


def test_another_outcome_than_expected_is_counted() -> None:
    """A refused model must be a 404, whatever else might do."""
    mix = Mix()
    mix.outcomes["unknown model"].update({"404": 5, "400": 2})
    mix.outcomes["answered"].update({"200": 3, "cut by the gateway": 1})

    assert 3 == mix.unexpected


def test_the_kinds_make_a_hundred() -> None:
    """The mix is reported in parts of a hundred."""
    assert 100 == sum(kind.per_hundred for kind in KINDS.values())

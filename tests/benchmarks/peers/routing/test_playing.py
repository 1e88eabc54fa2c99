import asyncio
import json
from collections.abc import Sequence

import pytest

from benchmarks.peers.routing.asking import Answer, Door
from benchmarks.peers.routing.playing import play
from benchmarks.peers.routing.slices import Said, Session, Turn
from tests.benchmarks.listening import listening

WHOLE = b'HTTP/1.1 200 OK\r\n\r\ndata: {"choices":[]}\n\ndata: [DONE]\n\n'
FAILED = b"HTTP/1.1 500 Internal Server Error\r\n\r\n"


def turn(name: str, wait_s: float = 0.0) -> Turn:
    return Turn(wait_s, Said([{"role": "user", "content": name}]), 1)


async def played(
    sessions: Sequence[Session], *, speed: float, failing: frozenset[str] = frozenset()
) -> tuple[list[Answer], list[str]]:
    """The answers, and the names of the turns, in the order in which they came and ended."""
    log: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        name = json.loads(await reader.readexactly(length))["messages"][0]["content"]
        log.append(f"{name} asked")
        await asyncio.sleep(0.02)
        log.append(f"{name} answered")
        writer.write(FAILED if name in failing else WHOLE)

    async with listening(serve) as url:
        return await play(sessions, Door(url, timeout_s=10.0), speed=speed), log


async def test_a_turn_follows_the_answer_before() -> None:
    answers, log = await played([Session(0.0, [turn("a1"), turn("a2"), turn("a3")])], speed=1.0)

    assert [f"a{number} {what}" for number in (1, 2, 3) for what in ("asked", "answered")] == log
    assert [None] * 3 == [answer.failure for answer in answers]


@pytest.mark.e2e
async def test_sessions_come_at_their_times_anyone_who_is_still_being_answered() -> None:
    """In the time of workers that are a thousand times as fast as the clock."""
    _, log = await played([Session(1000.0, [turn("late")]), Session(0.0, [turn("early")])], speed=1000.0)
    _, crowd = await played([Session(0.0, [turn(str(number))]) for number in range(5)], speed=1.0)

    assert ["early asked", "early answered", "late asked", "late answered"] == log
    assert {f"{number} asked" for number in range(5)} == set(crowd[:5])


@pytest.mark.e2e
async def test_a_pause_is_not_part_of_the_time_to_the_first_token() -> None:
    answers, _ = await played([Session(0.0, [turn("a1"), turn("a2", wait_s=10.0)])], speed=10.0)

    assert all(0.02 <= answer.ttft_s < 10.0 for answer in answers)


async def test_a_session_goes_on_after_a_failure() -> None:
    answers, log = await played([Session(0.0, [turn("a1"), turn("a2")])], speed=1.0, failing=frozenset({"a1"}))

    assert ["500", None] == [answer.failure for answer in answers]
    assert "a2 answered" == log[-1]

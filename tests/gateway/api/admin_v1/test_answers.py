"""Answers to repeated requests that concern one gateway alone."""

import asyncio

import pytest
from fastapi.responses import JSONResponse, Response

from gateway.api.admin_v1.answers import Answers
from gateway.api.admin_v1.claims import Claim
from gateway.protocol.errors import Conflict
from tests.gateway.examples import Clock

ONE = Claim("id", "body", "a")


class Work:
    def __init__(self, *, max_bytes: int = 10_000) -> None:
        self.clock = Clock(1000.0)
        self.answers = Answers(wall_clock=self.clock, max_bytes=max_bytes)
        self.done = 0

    async def act(self) -> Response:
        self.done += 1
        return JSONResponse({"done": self.done})

    async def once(self, claim: Claim | None = ONE) -> tuple[bytes, str | None]:
        response = await self.answers.once(claim, self.act)
        return bytes(response.body), response.headers.get("idempotent-replayed")


async def test_a_repetition_has_the_first_answer() -> None:
    work = Work()

    assert [(b'{"done":1}', None), (b'{"done":1}', "true")] == [await work.once(), await work.once()]
    assert 1 == work.done


async def test_without_the_header_everything_is_done_each_time() -> None:
    work = Work()

    assert [b'{"done":1}', b'{"done":2}'] == [(await work.once(None))[0], (await work.once(None))[0]]


async def test_another_body_under_the_same_header_is_refused() -> None:
    work = Work()
    await work.once()

    with pytest.raises(Conflict, match="was used for another request"):
        await work.once(Claim("id", "another", "a"))


async def test_what_failed_is_done_by_the_repetition() -> None:
    work = Work()

    async def fail() -> Response:
        raise Conflict("no")

    with pytest.raises(Conflict, match="no"):
        await work.answers.once(ONE, fail)
    assert (b'{"done":1}', None) == await work.once()


async def test_while_the_first_one_runs_its_repetition_is_refused() -> None:
    work, go = Work(), asyncio.Event()

    async def wait() -> Response:
        await go.wait()
        return await work.act()

    first = asyncio.ensure_future(work.answers.once(ONE, wait))
    await asyncio.sleep(0)
    with pytest.raises(Conflict, match="still in progress"):
        await work.once()
    go.set()

    assert b'{"done":1}' == (await first).body
    assert (b'{"done":1}', "true") == await work.once()


async def test_a_header_is_forgotten_after_a_day() -> None:
    work = Work()
    await work.once()
    work.clock.now += 86_400

    assert (b'{"done":2}', None) == await work.once()


async def test_answers_are_bounded_in_bytes() -> None:
    """The oldest ones go first."""
    work = Work(max_bytes=3 * 600)
    for i in range(100):
        await work.once(Claim(f"{i}", "body", "a"))
    await work.once(Claim("99", "body", "a"))

    assert 100 == work.done
    assert (b'{"done":101}', None) == await work.once(Claim("0", "body", "a"))

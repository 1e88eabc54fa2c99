"""Asking engines, and leaving alone who does not answer."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import httpx
import pytest

from gateway.models.tokenizing.engine_question import EngineAddress, EngineQuestion
from gateway.models.tokenizing.exactness import Unknowable
from tests.fakes.engine import Answer, Drips, FakeEngine, Floods, Garbage, Hangs, Page, fake_engine

PATH = "/tokenize"


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=60, verify=False) as client:
        yield client


def question(
    client: httpx.AsyncClient, engines: Sequence[FakeEngine], clock: Clock, *, timeout_s: float = 10.0
) -> EngineQuestion:
    addresses = [EngineAddress(engine.url, {"authorization": "Bearer key"}) for engine in engines]
    return EngineQuestion(client, lambda: addresses, timeout_s=timeout_s, clock=clock, rest_s=300.0, pause_s=5.0)


async def test_a_question_is_posted_as_json(client: httpx.AsyncClient) -> None:
    """With the worker's key, and for an answer that is not packed."""
    async with fake_engine({PATH: Page("the answer")}) as engine:
        assert b"the answer" == await question(client, [engine], Clock()).ask(PATH, b"{}")

    assert [b"{}"] == engine.bodies
    assert engine.heads[0].startswith("post /tokenize ")
    for line in ("content-type: application/json", "accept-encoding: identity", "authorization: bearer key"):
        assert f"\r\n{line}\r\n" in engine.heads[0]


async def test_engines_are_asked_in_turn(client: httpx.AsyncClient) -> None:
    """None of them has all the work."""
    async with fake_engine({PATH: Page()}) as one, fake_engine({PATH: Page()}) as other:
        asking = question(client, [one, other], Clock())
        for _ in range(4):
            await asking.ask(PATH, b"{}")

        assert (2, 2) == (one.times(PATH), other.times(PATH))


@pytest.mark.parametrize("status", [401, 403, 404, 405, 501])
async def test_who_does_not_offer_it_is_left_alone_for_long(client: httpx.AsyncClient, status: int) -> None:
    """Only this path rests; later the engine may have been started again."""
    clock = Clock()
    async with fake_engine({PATH: Page(status=status), "/other": Page("yes")}) as engine:
        asking = question(client, [engine], clock)
        for _ in range(3):
            with pytest.raises(Unknowable, match="unavailable"):
                await asking.ask(PATH, b"{}")
        assert b"yes" == await asking.ask("/other", b"{}")
        clock.now += 301.0
        engine.answers[PATH] = Page("now")

        assert b"now" == await asking.ask(PATH, b"{}")
        assert 2 == engine.times(PATH)


async def test_another_answers_for_who_cannot(client: httpx.AsyncClient) -> None:
    """From the next question on."""
    async with fake_engine({}) as one, fake_engine({PATH: Page("yes")}) as other:
        asking = question(client, [other, one], Clock())
        with pytest.raises(Unknowable, match="unavailable"):
            await asking.ask(PATH, b"{}")

        assert [b"yes"] * 3 == [await asking.ask(PATH, b"{}") for _ in range(3)]


@pytest.mark.parametrize("answer", [Garbage(), Garbage(b"\0\xff\r\n\r\n")])
async def test_who_cannot_be_reached_is_left_alone_for_a_moment(client: httpx.AsyncClient, answer: Answer) -> None:
    """It may be starting."""
    clock = Clock()
    async with fake_engine({PATH: answer}) as engine:
        asking = question(client, [engine], clock)
        for _ in range(2):
            with pytest.raises(Unknowable, match="unavailable"):
                await asking.ask(PATH, b"{}")
        assert 1 == engine.times(PATH)
        clock.now += 6.0
        engine.answers[PATH] = Page("now")

        assert b"now" == await asking.ask(PATH, b"{}")


@pytest.mark.parametrize("answer", [Hangs(), Drips()])
async def test_who_is_slow_is_left_alone_for_a_moment(client: httpx.AsyncClient, answer: Answer) -> None:
    """The way in which it is slow does not matter."""
    async with fake_engine({PATH: answer}) as engine:
        asking = question(client, [engine], Clock(), timeout_s=0.1)
        with pytest.raises(Unknowable, match="slow"):
            await asking.ask(PATH, b"{}")
        with pytest.raises(Unknowable, match="unavailable"):
            await asking.ask(PATH, b"{}")


@pytest.mark.parametrize("answer", [Page("no", 400), Page("no", 500), Floods()])
async def test_a_refusal_is_about_the_question(client: httpx.AsyncClient, answer: Answer) -> None:
    """The next may be answered; what is endless is not one."""
    async with fake_engine({PATH: answer}) as engine:
        asking = question(client, [engine], Clock())
        for _ in range(2):
            with pytest.raises(Unknowable, match="engine"):
                await asking.ask(PATH, b"{}")

        assert 2 == engine.times(PATH)


async def test_without_engines_no_one_can_tell(client: httpx.AsyncClient) -> None:
    """There may be some later."""
    with pytest.raises(Unknowable, match="unavailable"):
        await question(client, [], Clock()).ask(PATH, b"{}")

"""Draining workers, who wants it, and the hand-over of their streams."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import UNSET

from cache_index import WorkerId
from gateway.app.mapping.workers import model_workers
from gateway.models.model_names import ModelNames
from gateway.protocol.errors import HandedOver
from gateway.settings import build
from gateway.workers.draining import AGAIN_S, Draining
from gateway.workers.worker_spec import ModelWorkers
from tests.fakes.backends import EVENTS, Answers, ScriptedReply
from tests.gateway.examples import Clock, a_draining, a_model, the_models
from tests.routing.examples import ABORTED, a_request, book

A, B, C = WorkerId("a"), WorkerId("b"), WorkerId("c")


def settings(*draining: str, models: tuple[str, ...] = ("tiny",)) -> tuple[ModelWorkers, ...]:
    """Workers a, b and c of each model; those that are named here are declared as draining."""
    workers = [{"id": name, "url": f"http://{name}", "draining": name in draining} for name in "abc"]
    return model_workers(build({"models": [{"name": name, "workers": workers} for name in models]}, {}).models)


class Stage:
    """The model tiny with three workers, and a stream on the first that could go on elsewhere."""

    def __init__(self, *, hand_over_after_s: float | None = 30.0) -> None:
        self.clock = Clock(100.0)
        self.model = a_model(Answers(), Answers(), Answers(), name="tiny")
        self.models = the_models(self.model)
        self.draining = Draining(self.models, hand_over_after_s=hand_over_after_s, clock=self.clock)
        self.booking = book(self.model.fleet, a_request(), 100.0, A)
        self.reply = ScriptedReply(200, EVENTS, [b"more"])
        self.model.streams.opened(A, self.reply)

    @property
    def drained(self) -> str:
        """The workers that drain."""
        return "".join(worker.id for worker in self.model.fleet if worker.is_draining)

    def at(self, now: float) -> float | None:
        self.clock.now = now
        return self.draining.turn()

    async def is_handed_over(self) -> bool:
        """Whether the stream was interrupted. It is another one afterwards, which was not."""
        reply, self.reply = self.reply, ScriptedReply(200, EVENTS, [b"more"])
        self.model.streams.closed(A, reply)
        self.model.streams.opened(A, self.reply)
        try:
            await reply.read()
        except HandedOver:
            return True
        return False


# Who drains


def test_an_operator_drains_and_undrains() -> None:
    stage = Stage()
    stage.draining.drain(stage.model, A)
    stage.draining.drain(stage.model, B)
    before = stage.drained
    stage.draining.undrain(stage.model, A)
    stage.draining.undrain(stage.model, C)  # which does not drain

    assert ("ab", "b") == (before, stage.drained)
    assert [(), ("operator",)] == [stage.draining.words("tiny", worker) for worker in (A, B)]


def test_processes_drain_the_same_workers() -> None:
    """What an operator says to one is followed by the others, and is not said again by them."""
    said: list[tuple[object, ...]] = []
    one, other = Stage(), Stage()
    for stage in (one, other):
        stage.draining.share(lambda *each: said.append(each))
    one.draining.drain(one.model, A, hand_over_after_s=5.0)
    one.draining.undrain(one.model, B)
    other.draining.follow("tiny", A, drains=True, hand_over_after_s=5.0)
    other.draining.follow("gone", A, drains=True, hand_over_after_s=None)
    other.draining.follow("tiny", WorkerId("gone"), drains=True, hand_over_after_s=None)

    assert [("tiny", A, True, 5.0), ("tiny", B, False, UNSET)] == said
    assert ("a", "a", 5.0) == (one.drained, other.drained, other.draining.hand_over_in_s("tiny", A))

    other.draining.follow("tiny", A, drains=False, hand_over_after_s=UNSET)

    assert "" == other.drained


def test_the_settings_drain_and_undrain() -> None:
    """The current settings count."""
    stage = Stage()
    seen = []
    for declared in ("", "ab", "bc", ""):
        stage.draining.declare(settings(*declared))
        seen.append(stage.drained)

    assert ["", "ab", "bc", ""] == seen


def test_neither_takes_back_what_the_other_said() -> None:
    stage = Stage()
    seen = []
    stage.draining.declare(settings("a"))
    stage.draining.drain(stage.model, A)
    seen.append((stage.drained, stage.draining.words("tiny", A)))
    stage.draining.undrain(stage.model, A)
    seen.append((stage.drained, stage.draining.words("tiny", A)))
    stage.draining.drain(stage.model, A)
    stage.draining.declare(settings())
    seen.append((stage.drained, stage.draining.words("tiny", A)))
    stage.draining.undrain(stage.model, A)
    seen.append((stage.drained, stage.draining.words("tiny", A)))

    assert [
        ("a", ("operator", "settings")),
        ("a", ("settings",)),
        ("a", ("operator",)),
        ("", ()),
    ] == seen


def test_a_worker_may_drain_for_one_of_its_models() -> None:
    tiny, big = a_model(Answers(), name="tiny"), a_model(Answers(), name="big")
    draining = a_draining(the_models(tiny, big))
    draining.drain(big, A)

    assert [False, True] == [model.fleet.worker(A).is_draining for model in (tiny, big)]
    assert [(), ("operator",)] == [draining.words(name, A) for name in ("tiny", "big")]


class At(Answers):
    """A worker at another address."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    @property
    def url(self) -> str:
        return self._url


def renew(stage: Stage, *urls: str) -> None:
    """Put the model again in its place, as a reload does, with workers at *urls*, called a, b ..."""
    model = a_model(*map(At, urls), name="tiny", fleet=stage.model.fleet, former=stage.model)
    stage.model.fleet.set_workers(model.workers, 100.0)
    stage.model = model
    stage.models.replace({"tiny": model}, ModelNames([("tiny", ())]))


def test_a_reload_changes_nothing_of_what_an_operator_said() -> None:
    """The model is another object, and the same worker."""
    stage = Stage()
    stage.draining.drain(stage.model, A)
    renew(stage, "http://a", "http://b")
    stage.draining.declare(settings())

    assert ("a", ("operator",)) == (stage.drained, stage.draining.words("tiny", A))


@pytest.mark.parametrize("meanwhile", [[], ["http://elsewhere"]])
def test_what_an_operator_said_is_forgotten_with_the_worker(meanwhile: list[str]) -> None:
    """It left, or another process has its name."""
    stage = Stage()
    stage.draining.drain(stage.model, A)
    renew(stage, *meanwhile)
    stage.draining.declare(settings())
    renew(stage, "http://a")
    stage.draining.declare(settings())

    assert ("", ()) == (stage.drained, stage.draining.words("tiny", A))


def test_what_an_operator_said_is_not_meant_for_the_next_pod() -> None:
    """It may have the name and the address of the one that was drained."""
    stage = Stage()
    stage.draining.declare(pod("1"))
    stage.draining.drain(stage.model, A)
    stage.draining.declare(pod("1"))
    words = stage.draining.words("tiny", A)
    stage.draining.declare(pod("2"))

    assert (("operator",), ()) == (words, stage.draining.words("tiny", A))


def pod(uid: str) -> tuple[ModelWorkers, ...]:
    worker = {"url": "http://a", "id": "a", "uid": uid}
    return model_workers(build({"models": [{"name": "tiny", "workers": [worker]}]}, {}).models)


def test_a_model_that_is_gone_leaves_nothing_behind() -> None:
    """Neither a word nor something to do."""
    stage = Stage()
    stage.draining.drain(stage.model, A)
    stage.models.replace({}, ModelNames([]))

    assert None is stage.at(200.0)

    stage.draining.declare(settings(models=("big",)))

    assert () == stage.draining.words("tiny", A)


# When streams are handed over


async def test_streams_are_handed_over_after_a_while() -> None:
    """Not before, and once."""
    stage = Stage()
    stage.draining.drain(stage.model, A)

    assert (30.0, 30.0) == (stage.draining.hand_over_in_s("tiny", A), stage.draining.turn())
    assert 0.5 == stage.at(129.5)
    assert not await stage.is_handed_over()

    stage.at(130.0)

    assert await stage.is_handed_over()


async def test_what_could_not_be_handed_over_is_tried_again() -> None:
    """No one was there to take it; as long as the worker has something to do."""
    stage = Stage()
    for other in (B, C):
        stage.model.fleet.set_up(other, up=False)
    stage.draining.drain(stage.model, A)

    assert AGAIN_S == stage.at(130.0)
    assert not await stage.is_handed_over()

    stage.model.fleet.set_up(B, up=True)

    assert 1.0 == stage.at(134.0)
    assert AGAIN_S == stage.at(135.0)
    assert await stage.is_handed_over()

    stage.model.fleet.bookings.release(stage.booking, ABORTED, 136.0)

    assert None is stage.at(140.0)
    assert None is stage.draining.hand_over_in_s("tiny", A)
    assert not await stage.is_handed_over()


@pytest.mark.parametrize(
    ("default_s", "said", "due_s"),
    [
        (30.0, {}, 30.0),
        (30.0, {"hand_over_after_s": 0.0}, 0.0),
        (30.0, {"hand_over_after_s": 90.0}, 90.0),
        (30.0, {"hand_over_after_s": None}, None),
        (None, {}, None),
        (None, {"hand_over_after_s": 5.0}, 5.0),
    ],
)
async def test_the_time_may_be_said(default_s: float | None, said: dict[str, float], due_s: float | None) -> None:
    """None: they end there in peace."""
    stage = Stage(hand_over_after_s=default_s)
    stage.draining.drain(stage.model, A, **said)

    assert due_s == stage.draining.hand_over_in_s("tiny", A)

    stage.at(1000.0)

    assert (due_s is not None) == await stage.is_handed_over()


async def test_declared_workers_hand_over_as_all_do() -> None:
    """After the time that is for everybody; to declare them again puts nothing off."""
    stage = Stage()
    stage.draining.declare(settings("a"))
    stage.clock.now = 120.0
    stage.draining.declare(settings("a", "b"))

    assert [10.0, 30.0] == [stage.draining.hand_over_in_s("tiny", worker) for worker in (A, B)]

    stage.at(130.0)

    assert await stage.is_handed_over()


async def test_undraining_stops_the_timer() -> None:
    stage = Stage()
    stage.draining.drain(stage.model, A)
    stage.draining.undrain(stage.model, A)

    assert None is stage.at(130.0)
    assert not await stage.is_handed_over()


async def test_the_first_of_two_times_counts() -> None:
    """The other one counts when that is taken back."""
    stage = Stage()
    stage.draining.declare(settings("a"))
    stage.draining.drain(stage.model, A, hand_over_after_s=5.0)

    assert 5.0 == stage.draining.hand_over_in_s("tiny", A)

    stage.draining.undrain(stage.model, A)

    assert 30.0 == stage.draining.hand_over_in_s("tiny", A)


async def test_a_drain_that_is_said_again_begins_again() -> None:
    stage = Stage()
    stage.draining.drain(stage.model, A, hand_over_after_s=5.0)
    stage.clock.now = 104.0
    stage.draining.drain(stage.model, A, hand_over_after_s=5.0)

    assert 1.0 == stage.at(108.0)
    assert not await stage.is_handed_over()


def test_how_many_go_on_elsewhere_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The operator can see the outcome."""
    stage = Stage()
    stage.draining.drain(stage.model, A)
    with caplog.at_level(logging.INFO, "gateway.workers.draining"):
        stage.at(130.0)

    assert ["model tiny: worker a is draining, 1 of its streams move to other workers"] == caplog.messages


async def test_it_runs_by_itself() -> None:
    """What is drained while it waits wakes it; who waits for nothing is woken too."""
    stage = Stage()
    async with running(stage.draining):
        await asyncio.sleep(0)
        stage.draining.drain(stage.model, A, hand_over_after_s=0.0)
        async with asyncio.timeout(60):
            while not await stage.is_handed_over():
                await asyncio.sleep(0)


async def test_it_waits_for_the_time() -> None:
    stage = Stage()
    stage.draining.drain(stage.model, A, hand_over_after_s=0.05)
    async with running(stage.draining), asyncio.timeout(60):
        while not await stage.is_handed_over():
            await asyncio.sleep(0.01)
            stage.clock.now += 0.01


@asynccontextmanager
async def running(draining: Draining) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        loop = tasks.create_task(draining.run())
        yield
        loop.cancel()

"""Models made from settings."""

import random
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from cache_index import WorkerId
from gateway.cascade.assembly import Cascades
from gateway.model_maker import Made, ModelMaker
from gateway.settings import Settings
from tests.fakes.intake import FakeIntake
from tests.gateway.examples import Clock
from tests.gateway.test_roster import knowledge_of
from tests.routing.examples import an_index


class Bench:
    """A maker, and settings for one model."""

    def __init__(self, maker: ModelMaker) -> None:
        self._maker = maker

    def made(self, former: Made | None = None, groups: dict[str, Any] | None = None, **model: Any) -> Made:
        settings = self.settings(groups, **model)
        return self._maker.make(settings.models[0], settings, former)

    def settings(self, groups: dict[str, Any] | None = None, **model: Any) -> Settings:
        workers = [{"url": "http://127.0.0.1:9", "id": "a"}]
        return Settings.model_validate({"models": [{"name": "tiny", "workers": workers, **model}], **(groups or {})})


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    clock = Clock()
    async with httpx.AsyncClient() as client:
        knowledge = knowledge_of(an_index(), client, clock, FakeIntake({}))
        yield Bench(
            ModelMaker(
                knowledge=knowledge,
                cascades=Cascades(client),
                addresses=lambda _: [],
                clock=clock,
                rng=random.Random(0),
            )
        )


async def test_what_the_settings_say_of_a_model_is_what_it_does(bench: Bench) -> None:
    fallbacks = [{"openai": {"url": "http://127.0.0.1:9/v1", "id": "other"}}]
    model = bench.made(continuation="text", context_tokens=4096, fallbacks=fallbacks).model

    assert ("text", 4096, ("other",)) == (model.continuation, model.context_tokens, model.cascade.ids)


async def test_nothing_is_made_anew_that_nobody_changed(bench: Bench) -> None:
    made = bench.made()

    assert made is bench.made(made)


async def test_what_stays_keeps_its_connections(bench: Bench) -> None:
    """A model under another strategy has the same workers."""
    former = bench.made()
    made = bench.made(former, strategy="round_robin")

    assert made.model.workers[WorkerId("a")] is former.model.workers[WorkerId("a")]
    assert (None, True) == (former.dispatcher, made.dispatcher is not None)


async def test_a_model_that_is_not_in_place_yet_changes_nothing_for_its_former(bench: Bench) -> None:
    """Making another one may still fail."""
    former = bench.made()
    bench.made(former, strategy="round_robin")

    assert former.model is former.model.latest


async def test_the_retry_budget_is_that_of_the_settings(bench: Bench) -> None:
    """Of the first settings: requests that go on count with it."""
    budget = bench.made(groups={"retry": {"budget_share": 0, "budget_floor_per_s": 0.1}}).model.retry_budget

    assert [True, False] == [budget.take(1.0), budget.take(1.0)]

"""Models made from settings."""

import dataclasses
import random
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from cache_index import WorkerId
from gateway.app.fallbacks import FallbackFactory
from gateway.app.mapping.models import model_spec
from gateway.app.mapping.workers import model_workers
from gateway.app.model_factory import Knowledge, ModelBuild, ModelFactory
from gateway.backends.upstream.engine_progress import EnginesProgress
from gateway.settings import Settings
from gateway.workers.replicas.outbox import BookingOutbox
from gateway.workers.replicas.replicas import ReplicaRules, Sharing
from routing.rendezvous import Rendezvous
from tests.fakes.intake import FakeIntake
from tests.gateway.app.test_reconciler import knowledge_of
from tests.gateway.examples import Clock
from tests.routing.examples import ANSWERED, a_request, an_index, book


class Bench:
    """A maker, and settings for one model."""

    def __init__(self, maker: ModelFactory, fallback_factory: FallbackFactory) -> None:
        self._model_factory = maker
        self._fallback_factory = fallback_factory

    def made(self, former: ModelBuild | None = None, groups: dict[str, Any] | None = None, **model: Any) -> ModelBuild:
        settings = self.settings(groups, **model)
        (workers,) = model_workers(settings.models)
        spec = model_spec(settings.models[0], workers.workers, settings, self._fallback_factory)
        return self._model_factory.make(spec, former)

    def settings(self, groups: dict[str, Any] | None = None, **model: Any) -> Settings:
        workers = [{"url": "http://127.0.0.1:9", "id": "a"}]
        return Settings.model_validate({"models": [{"name": "tiny", "workers": workers, **model}], **(groups or {})})


def bench_of(knowledge: Knowledge, client: httpx.AsyncClient, clock: Clock) -> Bench:
    return Bench(
        ModelFactory(
            knowledge=knowledge,
            addresses=lambda _: [],
            engines=EnginesProgress(lambda _: None),
            clock=clock,
            rng=random.Random(0),
        ),
        FallbackFactory(client),
    )


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    clock = Clock()
    async with httpx.AsyncClient() as client:
        knowledge = knowledge_of(an_index(), client, clock, FakeIntake({}))
        yield bench_of(knowledge, client, clock)


async def test_what_the_settings_say_of_a_model_is_what_it_does(bench: Bench) -> None:
    fallbacks = [{"openai": {"url": "http://127.0.0.1:9/v1", "id": "other"}}]
    model = bench.made(continuation="text", context_tokens=4096, fallbacks=fallbacks).model

    assert ("text", 4096, ("other",)) == (model.continuation, model.context_tokens, model.fallbacks.ids)


async def test_nothing_is_made_again_that_no_one_changed(bench: Bench) -> None:
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
    budget = bench.made(groups={"retry": {"budget_share": 0, "budget_floor_per_s": 0.1}}).model.retry_budget

    assert [True, False] == [budget.spend(1.0), budget.spend(1.0)]


async def test_replicas_are_notified_of_what_a_model_gives_to_workers() -> None:
    clock, workers = Clock(), [{"url": f"http://127.0.0.1:{port}", "id": f"w{port}"} for port in range(1, 9)]
    outbox = BookingOutbox()
    chosen = []
    async with httpx.AsyncClient() as client:
        for strategy in ("prefix_aware", "kv_aware") * 3:
            knowledge = knowledge_of(an_index(), client, clock, FakeIntake({}))
            sharing = Sharing(ReplicaRules("redis://h", 1, "g", 1, 1, 5), outbox, Rendezvous(), bytes(32))
            bench = bench_of(dataclasses.replace(knowledge, sharing=sharing), client, clock)
            model = bench.made(workers=workers, strategy=strategy).model
            model.fleet.set_workers(model.workers, 0.0)
            dispatch = await model.dispatch_queue.admit(a_request("xyz"))
            assert dispatch.booking is not None
            chosen.append(dispatch.booking.worker)

    assert 1 == len(set(chosen))
    assert ["tiny"] * 6 == [booked.model for booked in outbox.snapshot().bookings]


async def test_under_another_key_everything_is_hashed_again() -> None:
    """Prompts, what engines tell, and so what is known of either is dropped."""
    index, clock = an_index(), Clock()
    async with httpx.AsyncClient() as client:
        knowledge = knowledge_of(index, client, clock, FakeIntake({}))
        model = bench_of(knowledge, client, clock).made().model
        model.fleet.set_workers(model.workers, 0.0)
        model.fleet.bookings.release(book(model.fleet, a_request("abc"), 0.0), ANSWERED, 1.0)
        text, tokens = bytes(4096), bytes(4096)

        def hashed() -> tuple[bytes, bytes]:
            return knowledge.hasher.prefix(text).hashes, knowledge.token_hasher.prefix(tokens, block_size=16).hashes

        before, held = hashed(), index.held(WorkerId("a"))
        knowledge.rehash(bytes(range(32)), [model.fleet])

        assert (3, 0) == (held, index.held(WorkerId("a")))
        assert 4 == len({*before, *hashed()})


WORKERS = [
    {"url": "http://127.0.0.1:9", "id": "a", "role": "prefill"},
    {"url": "http://127.0.0.1:10", "id": "b", "role": "decode"},
]


async def test_a_model_whose_workers_do_halves_has_a_division(bench: Bench) -> None:
    prefill_decode = bench.made(
        workers=WORKERS, disaggregation={"flow": "nixl", "replace_loopback": False}
    ).model.prefill_decode

    assert prefill_decode is not None
    assert ("nixl", False, "prefix_aware") == (
        *(prefill_decode.flow, prefill_decode.replace_loopback, prefill_decode.strategy_of(a_request())),
    )
    assert None is bench.made().model.prefill_decode


async def test_sglangs_halves_meet_where_the_settings_say(bench: Bench) -> None:
    workers = [{**WORKERS[0], "bootstrap_port": 9000}, WORKERS[1]]
    prefill_decode = bench.made(workers=workers, disaggregation={"flow": "sglang"}).model.prefill_decode

    assert prefill_decode is not None
    assert ("sglang", 9000) == (prefill_decode.flow, prefill_decode.bootstrap_port(WorkerId("a")))


async def test_what_a_hop_proved_to_cost_outlives_a_change_of_settings(bench: Bench) -> None:
    former = bench.made(workers=WORKERS, disaggregation={"flow": "nixl"})
    made = bench.made(former, workers=WORKERS, disaggregation={"flow": "nixl", "min_uncached_tokens": 9})
    assert former.model.prefill_decode is not None
    assert made.model.prefill_decode is not None

    assert former.model.prefill_decode.handover is made.model.prefill_decode.handover
    assert made.dispatcher is not None  # by another rule
    assert "least_loaded" == made.dispatcher.explain(a_request(), 0.0).strategy


async def test_a_worker_that_takes_another_role_keeps_its_connections(bench: Bench) -> None:
    former = bench.made(workers=WORKERS, disaggregation={"flow": "nixl"})
    turned = [{**WORKERS[0], "role": "decode"}, {**WORKERS[1], "role": "prefill"}]
    made = bench.made(former, workers=turned, disaggregation={"flow": "nixl"})

    assert former.model.workers == made.model.workers

"""Registry, fleets, connections and checks go with the settings, and what stays keeps its state."""

import asyncio
import gc
import json
import random
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from cache_index import Hasher, WorkerId
from cache_index.confirmed import Confirmed
from cache_index.hit import Hit
from cache_index.radix import RadixTree
from cache_index.residency import Residency
from cache_index.tokens import TokenHasher
from gateway.app.fallbacks import FallbackFactory
from gateway.app.mapping.models import health_rules, serving_plan
from gateway.app.mapping.workers import model_workers
from gateway.app.model_factory import Knowledge
from gateway.app.reconciler import Reconciler
from gateway.app.tokenizers import Tokenizers
from gateway.backends.backend import Call, Reply
from gateway.backends.client import WorkerClient
from gateway.models.exact_prompts import ExactPrompts
from gateway.models.model import Model
from gateway.models.registry import Models
from gateway.protocol.errors import ConnectFailed
from gateway.settings import Settings, build
from gateway.workers.event_subscriptions import EventSubscriptions, SubscriptionTarget
from gateway.workers.health import Health
from gateway.workers.kv_events.feed import Feed
from gateway.workers.kv_events.sources import EventSource, EventSources
from gateway.workers.rank_discovery.expansion import expanded, nothing_known
from gateway.workers.shared_address.placed_worker import PlacedWorker
from routing.booking import Booking
from routing.worker import Worker
from simulator.options import SimulatorOptions
from simulator.server import serving
from tests.fakes.engine import FakeEngine, Hangs, Page, fake_engine
from tests.fakes.intake import FakeIntake
from tests.gateway.examples import CHAT, CHAT_STREAM, Clock
from tests.gateway.workers.kv_events.examples import until
from tests.routing.confirmed_examples import ids_of, stored
from tests.routing.examples import ANSWERED, a_request, an_index, book

A, B = WorkerId("a"), WorkerId("b")
JSON = [(b"content-type", b"application/json")]
TEXT = b'{"model":"tiny","prompt":"hello"}'
CALL = Call(b"POST", b"/v1/chat/completions", JSON, CHAT[:-1] + b',"max_tokens":1}', streams=False, model="tiny")
CALL_STREAM = Call(b"POST", b"/v1/chat/completions", JSON, CHAT_STREAM, streams=True, model="tiny")


def settings(models: Mapping[str, Any], **groups: Any) -> Settings:
    entries = [
        {"name": name, **(model if isinstance(model, dict) else {"workers": workers(*model)})}
        for name, model in models.items()
    ]
    return build({"models": entries, **groups}, {})


def workers(*ids: str) -> list[dict[str, Any]]:
    return [{"url": f"http://{worker}:1", "id": worker} for worker in ids]


@dataclass
class Stage:
    reconciler: Reconciler
    fallback_factory: FallbackFactory
    models: Models
    health: Health
    knowledge: Knowledge
    intake: FakeIntake
    index: RadixTree

    @property
    def event_subscriptions(self) -> EventSubscriptions:
        return self.knowledge.event_subscriptions

    @property
    def confirmed(self) -> Confirmed:
        return self.knowledge.confirmed

    def put(self, settings: Settings) -> None:
        self.reconciler.take(serving_plan(settings, model_workers(settings.models), self.fallback_factory))

    def take(self, models: Mapping[str, Any], **groups: Any) -> Model:
        """Take the settings; the first model of them, with all its workers up."""
        self.put(settings(models, **groups))
        model = next(iter(self.models))
        for state in model.fleet:
            model.fleet.set_up(state.id, up=True)
        return model

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Feed]:
        """What the stream of the only worker that is followed reports."""
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self.event_subscriptions.run())
            await until(lambda: self.intake.running)
            yield self.intake.running[0].feed
            running.cancel()


def knowledge_of(index: RadixTree, client: httpx.AsyncClient, clock: Clock, intake: FakeIntake) -> Knowledge:
    token_hasher = TokenHasher(bytes(32))
    confirmed = Confirmed(Residency(token_hasher, max_bytes=1_000_000))
    return Knowledge(
        index=index,
        hasher=Hasher(bytes(32), block_bytes=64),
        confirmed=confirmed,
        token_hasher=token_hasher,
        tokenizers=Tokenizers(executor=ThreadPoolExecutor(1), client=client, clock=clock),
        event_subscriptions=EventSubscriptions(confirmed, intake),
    )


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with a_stage() as there:
        yield there


@asynccontextmanager
async def a_stage() -> AsyncIterator[Stage]:
    rules = health_rules(settings({"tiny": ["a"]}, health={"interval_s": 0.01}))
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(verify=False, limits=limits) as client, WorkerClient() as questions:
        index, models, clock = an_index(), Models(), Clock()
        health = Health(rules, client=questions, clock=clock, rng=random.Random(0))
        intake = FakeIntake({"http://a:1": EventSources((EventSource("tcp://a:5557"),))})
        knowledge = knowledge_of(index, client, clock, intake)
        reconciler = Reconciler(
            models,
            health,
            knowledge=knowledge,
            clock=clock,
            rng=random.Random(0),
        )
        yield Stage(reconciler, FallbackFactory(client), models, health, knowledge, intake, index)


def state_of(model: Model, worker: WorkerId) -> Worker:
    return next(state for state in model.fleet if state.id == worker)


def busy(model: Model, worker: WorkerId) -> Booking:
    """A request of three blocks on *worker*."""
    return book(model.fleet, a_request("abc"), 100.0, worker)


# ---- what stays, what goes


async def test_workers_that_are_new_have_to_prove_that_they_are_up(stage: Stage) -> None:
    """At the start, and whenever they come."""
    stage.put(settings({"tiny": ["a"]}))
    tiny = stage.models.find("tiny")
    assert "none of 1 workers is up" == tiny.why_not_ready()

    tiny.fleet.set_up(A, up=True)
    stage.put(settings({"tiny": ["a", "b"]}))

    assert [True, False] == [state.is_up for state in stage.models.find("tiny").fleet]


async def test_nothing_is_made_again_where_nothing_has_changed(stage: Stage) -> None:
    """The same settings again give the same model."""
    assert stage.take({"tiny": ["a"]}) is stage.take({"tiny": ["a"]})


async def test_workers_that_stay_keep_what_they_have(stage: Stage) -> None:
    """Load, rates, cache, connections, and whether they drain; whatever else of the model has changed."""
    before = stage.take({"tiny": ["a", "b"]})
    booking = busy(before, A)
    before.set_draining(B, draining=True)
    states, backend = list(before.fleet), before.workers[A]
    model = stage.take(
        {"tiny": {"workers": workers("b", "a"), "aliases": ["x"], "strategy": "session", "session_header": "x-s"}}
    )

    assert model is not before
    assert set(states) == set(model.fleet)
    assert (backend, 1, 3) == (model.workers[A], state_of(model, A).in_flight, stage.index.held(A))
    assert state_of(model, B).is_draining
    assert ("session", b"x-s", model) == (model.strategy, model.session_header, stage.models.find("x"))

    before.fleet.bookings.release(booking, ANSWERED, 101.0)

    assert 0 == state_of(model, A).in_flight


async def test_workers_that_left_are_forgotten_and_their_requests_end(stage: Stage) -> None:
    """Their part of the index is free at once."""
    before = stage.take({"tiny": ["a", "b"]})
    booking = busy(before, B)
    model = stage.take({"tiny": ["a"]})
    before.fleet.bookings.release(booking, ANSWERED, 101.0)

    assert ([A], 0) == ([state.id for state in model.fleet], stage.index.held(B))
    assert list(before.workers) != list(model.workers)


async def test_a_worker_of_two_models_is_one_process(stage: Stage) -> None:
    """Its cache is known as long as one of the models has it."""
    first = stage.take({"tiny": ["a"], "big": ["a", "b"]})
    busy(first, A)
    stage.take({"big": ["b", "a"]})
    assert 3 == stage.index.held(A)

    stage.take({"big": ["b"]})
    assert 0 == stage.index.held(A)


async def test_at_another_address_is_another_worker(stage: Stage) -> None:
    """The id does not make it the same: its cache is unknown, and it has to prove that it is up."""
    before = stage.take({"tiny": ["a", "b"]})
    former = busy(before, A)
    stage.put(settings({"tiny": {"workers": [{"url": "http://elsewhere:1", "id": "a"}, *workers("b")]}}))
    model = stage.models.find("tiny")

    assert (False, 0, 0) == (state_of(model, A).is_up, state_of(model, A).in_flight, stage.index.held(A))
    assert "http://elsewhere:1" == model.workers[A].url
    assert state_of(before, B) is state_of(model, B)

    model.fleet.bookings.release(former, ANSWERED, 101.0)
    assert 0 == state_of(model, A).in_flight


async def test_another_pod_is_another_worker(stage: Stage) -> None:
    """Also with the name and the address of the one before it: cache, rates, breaker and connections are its own."""
    first = stage.take({"tiny": AWARE | {"workers": [workers("a")[0] | {"uid": "1"}, *workers("b")]}})
    busy(first, A)
    subject, states = stage.event_subscriptions.subjects()[A], [state_of(first, worker) for worker in (A, B)]
    stage.put(settings({"tiny": AWARE | {"workers": [workers("a")[0] | {"uid": "2"}, *workers("b")]}}))
    model = stage.models.find("tiny")

    assert (False, 0, 0) == (state_of(model, A).is_up, state_of(model, A).in_flight, stage.index.held(A))
    assert first.workers[A] is not model.workers[A]
    assert [False, True] == [state is state_of(model, state.id) for state in states]
    assert first.workers[B] is model.workers[B]
    assert subject != stage.event_subscriptions.subjects()[A]


async def test_a_zone_that_becomes_known_makes_no_other_worker(stage: Stage) -> None:
    """It only stands there."""
    before = stage.take({"tiny": ["a"]})
    busy(before, A)
    model = stage.take({"tiny": {"workers": [workers("a")[0] | {"zone": "z1"}]}})

    assert (state_of(before, A), 3) == (state_of(model, A), stage.index.held(A))


@pytest.mark.parametrize(
    ("worker", "groups"),
    [({"api_key": "k"}, {}), ({"max_connections": 3}, {}), ({}, {"timeouts": {"idle_s": 1}})],
)
async def test_how_a_worker_is_asked_may_change(stage: Stage, worker: dict[str, Any], groups: dict[str, Any]) -> None:
    """Later requests are sent in the other way; all that is known of the worker stays."""
    before = stage.take({"tiny": ["a"]})
    busy(before, A)
    model = stage.take({"tiny": {"workers": [workers("a")[0] | worker]}}, **groups)

    assert before.workers[A] is not model.workers[A]
    assert (state_of(before, A), 1, 3) == (
        state_of(model, A),
        state_of(model, A).in_flight,
        stage.index.held(A),
    )


async def test_strategies_keep_their_turn_while_they_stay(stage: Stage) -> None:
    """Round robin goes on where it was when a worker comes; another strategy goes for all who come after its choice."""
    rr = {"strategy": "round_robin"}
    model = stage.take({"tiny": rr | {"workers": workers("a", "b")}})
    first = [(await model.dispatch_queue.admit(a_request())).order[0].worker for _ in range(2)]
    model = stage.take({"tiny": rr | {"workers": workers("a", "b", "c")}})
    then = await model.dispatch_queue.admit(a_request())
    model = stage.take({"tiny": {"workers": workers("a", "b", "c")}})
    other = await model.dispatch_queue.admit(a_request())

    assert (["a", "b"], "c") == (first, then.order[0].worker)
    assert ("round_robin", "prefix_aware") == (then.strategy, other.strategy)


async def test_teams_share_a_fleet_as_long_as_there_are_any(stage: Stage) -> None:
    """While its worker computes their requests wait here; without teams they go to its engine at once."""
    tiny = {"tiny": {"workers": workers("a")}}
    model = stage.take(tiny, teams=[{"name": "blue"}, {"name": "red"}])
    running = book(model.fleet, a_request("x" * 900), 100.0, WorkerId("a"))
    async with asyncio.TaskGroup() as tasks:
        waiting = [
            tasks.create_task(model.dispatch_queue.admit(a_request().changed(team=team)))
            for team in ("blue", "blue", "red")
        ]
        await asyncio.sleep(0)
        assert {"blue": 2, "red": 1} == model.dispatch_queue.waiting_by_team
        assert model is stage.take(tiny, teams=[{"name": "blue"}])
        assert 3 == model.dispatch_queue.waiting
        stage.take(tiny)

    assert ["a"] * 3 == [task.result().order[0].worker for task in waiting]
    assert running in set(state_of(model, WorkerId("a")).pending)


async def test_bedrock_comes_changes_and_goes(stage: Stage) -> None:
    """It is made again only if something about it is new."""

    def with_bedrock(model_id: str, **more: Any) -> dict[str, Any]:
        return {"tiny": {"workers": workers("a"), "bedrock": {"model_id": model_id, "region": "us-east-1"}, **more}}

    models = [
        stage.take(with_bedrock("one")),
        stage.take(with_bedrock("one", aliases=["x"])),
        stage.take(with_bedrock("two")),
        stage.take(with_bedrock("two"), bedrock={"profile": "p"}),
        stage.take({"tiny": ["a"]}),
    ]
    ids = [model.fallbacks.ids for model in models]
    backends = [model.fallbacks.in_order[0].backend for model in models[:4]]

    assert [("bedrock:one",), ("bedrock:one",), ("bedrock:two",), ("bedrock:two",), ()] == ids
    assert backends[0] is backends[1]
    assert backends[2] is not backends[3]


async def test_models_come_and_go(stage: Stage) -> None:
    """With their names; what a model that left had is free."""
    busy(stage.take({"tiny": ["a"]}), A)
    stage.take({"big": ["b"]})

    assert (["big"], 0) == (stage.models.ids(), stage.index.held(A))
    assert stage.models.get("tiny") is None


async def test_what_cannot_be_made_changes_nothing(stage: Stage) -> None:
    """Everything is made before anything is put in place."""
    before = stage.take({"tiny": ["a"]})
    bad = settings({"other": ["b"], "tiny": ["a", "c"]})
    broken = bad.models[1].workers[1].model_copy(update={"url": "ftp://c"})
    tiny = bad.models[1].model_copy(update={"workers": (*bad.models[1].workers[:1], broken)})

    with pytest.raises(ValueError, match="http"):
        stage.put(bad.model_copy(update={"models": (bad.models[0], tiny)}))
    assert [before] == list(stage.models)
    assert [A] == [state.id for state in before.fleet]


# ---- what engines tell


AWARE = {"strategy": "kv_aware"}


def followed(stage: Stage) -> dict[str, SubscriptionTarget]:
    return {str(worker): subject for worker, subject in stage.event_subscriptions.subjects().items()}


@pytest.mark.parametrize(
    ("model", "expected"),
    [({}, []), ({"strategy": "session"}, []), (AWARE, ["a", "b"]), ({"strategy_header": True}, ["a", "b"])],
)
async def test_engines_are_followed_where_that_matters(
    stage: Stage, model: dict[str, Any], expected: list[str]
) -> None:
    made = stage.take({"tiny": model | {"workers": workers("a", "b")}, "big": ["c"]})

    assert (expected, bool(expected)) == (list(followed(stage)), made.follows)


async def test_who_is_followed_goes_with_the_settings(stage: Stage) -> None:
    """Workers and strategies come and go; anyone who stays is the same subject."""
    stage.take({"tiny": AWARE | {"workers": workers("a", "b")}})
    before = followed(stage)["a"]
    stage.take({"tiny": AWARE | {"workers": workers("c", "a"), "aliases": ["x"]}})
    now = followed(stage)
    stage.take({"tiny": ["a", "c"]})

    assert (["c", "a"], before) == (list(now), now["a"])
    assert {} == followed(stage)


async def test_how_a_worker_is_asked_is_part_of_the_subject(stage: Stage) -> None:
    """Its address and key, and the model that its engine loads, by the workers' name for it."""
    worker = workers("a")[0] | {"api_key": "k-1"}
    stage.take({"tiny": AWARE | {"workers": [worker], "upstream_model": "org/tiny"}})

    assert {
        "a": SubscriptionTarget(A, "http://a:1", frozenset({("authorization", "Bearer k-1")}), "org/tiny", None)
    } == followed(stage)


async def test_where_an_engine_reports_can_be_written_down(stage: Stage) -> None:
    """A wildcard is the worker's host; without an endpoint it dials."""
    returned = {"endpoint": "tcp://*:5557", "replay_endpoint": "tcp://r:5558", "topic": "kv"}
    by_hand = [workers("a")[0] | {"kv_events": returned}, workers("b")[0] | {"kv_events": {}}]
    by_hand += [workers("c")[0] | {"kv_events": {"endpoint": "tcp://*:5557", "ranks": 2}}]
    stage.take({"tiny": AWARE | {"workers": by_hand}}, kv_events={"bind": "tcp://127.0.0.1:5559"})

    assert {
        "a": EventSources((EventSource("tcp://a:5557", "tcp://r:5558", "kv"),)),
        "b": EventSources((EventSource(None),)),
        "c": EventSources((EventSource("tcp://c:5557"), EventSource("tcp://c:5558", rank=1))),
    } == {worker: subject.sources for worker, subject in followed(stage).items()}


async def test_a_worker_of_two_models_is_followed_once(stage: Stage) -> None:
    """Both rely on it: its engine loads one model, and the other is an adapter of that."""
    both = {
        "tiny": AWARE | {"workers": workers("a")},
        "sql": AWARE | {"workers": workers("a"), "adapter": {"of": "tiny"}},
    }
    tiny = stage.take(both)
    sql = stage.models.find("sql")
    assert {"a": SubscriptionTarget(A, "http://a:1", frozenset(), "tiny", None)} == followed(stage)

    async with stage.listening() as feed:
        feed.trusted("live")
        assert [True, True] == [state_of(model, A).is_trusted for model in (tiny, sql)]

        feed.apply([stored("ab")])
        for model in (tiny, sql):
            model.fleet.tick(0.0)
        assert [{A: Hit(2)}, {}] == [await found(stage, model, "ab") for model in (tiny, sql)]

        stage.take({"sql": both["sql"]})
        assert ("live", True) == (stage.event_subscriptions.state(A), state_of(stage.models.find("sql"), A).is_trusted)


async def found(stage: Stage, model: Model, letters: str) -> Mapping[WorkerId, Hit]:
    """What engines are known to hold of a prompt for *model*."""
    assert model.exact_prompts is not None
    body = json.dumps({"model": model.name, "prompt": ids_of(letters)}).encode()
    prompt = await model.exact_prompts.tokenize("/v1/completions", body, None)
    assert prompt is not None
    return stage.confirmed.match(prompt.prefixes[0], 0.0)


async def test_a_tokenizer_is_kept_while_its_settings_are_the_same(stage: Stage) -> None:
    """It is large, and remembers much; so are the counts of its prompts."""
    none = {"source": "none"}
    made = [
        stage.take({"tiny": model}).exact_prompts
        for model in (
            AWARE | {"workers": workers("a"), "tokenizer": none},
            AWARE | {"workers": workers("b", "a"), "tokenizer": none, "aliases": ["x"]},
            {"workers": workers("a"), "strategy_header": True, "tokenizer": none},
            AWARE | {"workers": workers("a"), "tokenizer": {"source": "engine"}},
            AWARE | {"workers": workers("a"), "tokenizer": {"source": "engine"}, "upstream_model": "other"},
            AWARE
            | {
                "workers": workers("a"),
                "tokenizer": {"source": "engine"},
                "upstream_model": "other",
                "adapter": {"of": "x"},
            },
            {"workers": workers("a")},
        )
    ]

    assert made[-1] is None
    assert [0, 0, 0, 1, 2, 3] == [_first(made, prompts) for prompts in made[:-1]]


def _first(made: list[ExactPrompts | None], prompts: ExactPrompts | None) -> int:
    return list(dict.fromkeys(made)).index(prompts)


async def test_only_engines_that_are_ready_are_asked_for_tokens(stage: Stage) -> None:
    """With the worker's key, at its present address."""
    async with fake_engine({"/tokenize": Page('{"tokens":[5],"count":1,"max_model_len":9}')}) as engine:
        worker = {"url": engine.url, "id": "a", "api_key": "k-1"}
        model = stage.take({"tiny": AWARE | {"workers": [worker], "tokenizer": {"source": "engine", "budget_s": 10}}})
        stage.intake.found[engine.url] = EventSources((EventSource("tcp://a:5557"),))
        async with stage.listening() as feed:
            feed.trusted("live")
            feed.apply([stored("ab")])
            model.fleet.tick(0.0)
            prompts = model.exact_prompts
            assert prompts is not None
            known = await prompts.tokenize("/v1/completions", TEXT, None)
            model.fleet.set_up(A, up=False)
            unknown = await prompts.tokenize("/v1/completions", TEXT, None)

    assert known is not None
    assert (1, None) == (known.tokens, unknown)
    assert ["/v1/completions/render", "/tokenize"] == engine.asked
    assert "authorization: bearer k-1" in engine.heads[1]


# ---- checks


async def test_checks_go_with_the_workers() -> None:
    """Anyone who comes is visited, with its own key; anyone who left is not asked any more."""
    pages = {"/health": Page(), "/metrics": Page("vllm:num_requests_running 3\n")}
    async with a_stage() as stage, fake_engine(dict(pages)) as one, fake_engine(dict(pages)) as two:

        def only(engine: FakeEngine, **more: Any) -> Settings:
            worker = {"url": engine.url, "id": "w", **more}
            return settings({"tiny": {"workers": [worker]}}, health={"interval_s": 0.01})

        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(stage.health.run())
            await asyncio.sleep(0)
            for engine, more in ((one, {}), (two, {}), (two, {"api_key": "k-1"})):
                stage.put(only(engine, **more))
                before = len(engine.heads)
                async with asyncio.timeout(60):
                    while len(engine.heads) < before + 5 or stage.models.find("tiny").why_not_ready():
                        await asyncio.sleep(0.002)
            asked = len(one.asked)
            await asyncio.sleep(0.05)
            running.cancel()

    assert asked == len(one.asked)
    assert "authorization: bearer k-1" in two.heads[-1]
    (reading,) = stage.models.find("tiny").readings(100.0)
    assert (1.0, 3.0) == (reading.values["up"], reading.values["engine_running"])


async def test_a_worker_that_stays_up_is_up_under_other_rules() -> None:
    """No one has to prove twice that it lives; and anyone who fails by the other rules is down."""
    async with a_stage() as stage, fake_engine({"/health": Page()}) as engine:

        def under(**health: Any) -> Settings:
            return settings(
                {"tiny": {"workers": [{"url": engine.url, "id": "a"}]}}, health={"path": "/health", **health}
            )

        stage.put(under())
        await stage.health.check()
        stage.put(under(path="/livez", failures_to_down=1, timeout_s=0.2))
        tiny = stage.models.find("tiny")
        assert tiny.why_not_ready() is None

        engine.answers["/livez"] = Hangs()
        await stage.health.check()

        assert "none of 1 workers is up" == tiny.why_not_ready()


# ---- calls that run


@asynccontextmanager
async def streaming(stage: Stage, *, tpot_ms: float = 5.0) -> AsyncIterator[tuple[str, Model, Reply]]:
    """A worker's address, the model that has it, and a stream that is on its way from there."""
    async with serving(SimulatorOptions(port=0, tpot_ms=tpot_ms)) as url:
        model = stage.take({"tiny": {"workers": [{"url": url, "id": "a"}]}})
        reply = await model.workers[A].send(CALL_STREAM)
        await reply.read()
        yield url, model, reply


async def test_a_stream_of_a_worker_that_left_goes_on(stage: Stage) -> None:
    """To its end; then its connection is closed."""
    async with streaming(stage) as (_, former, reply):
        stage.take({"tiny": ["b"]})
        rest = b""
        while not reply.ended:
            rest += await reply.read()
        open_meanwhile = former.workers[A].connections_open
        await reply.aclose()

        assert rest.endswith(b"data: [DONE]\n\n")
        assert (1, 0) == (open_meanwhile, former.workers[A].connections_open)


async def test_what_a_worker_that_left_had_not_begun_goes_elsewhere_if_it_was_down(stage: Stage) -> None:
    """No one looks after it any more; of one that was up the answer is waited for."""
    for was_up in (False, True):
        async with fake_engine({"/v1/chat/completions": Hangs()}) as engine:
            model = stage.take({"tiny": {"workers": [{"url": engine.url, "id": "a"}]}})
            asking = asyncio.ensure_future(model.workers[A].send(CALL))
            while not engine.asked:
                await asyncio.sleep(0.002)
            model.fleet.set_up(A, up=was_up)
            stage.take({"tiny": ["b"]})
            done, _ = await asyncio.wait([asking], timeout=0.05 if was_up else 20)

            assert was_up is not bool(done)
            asking.cancel()
            await asyncio.wait([asking])


async def test_a_closed_model_sends_nothing_more(stage: Stage) -> None:
    """Neither by its workers nor by those that were on their way out."""
    async with streaming(stage, tpot_ms=1000) as (url, former, reply):
        model = stage.take({"tiny": {"workers": [{"url": url, "id": "a", "api_key": "k"}]}})
        await model.aclose()

        assert 0 == former.workers[A].connections_open
        with pytest.raises(ConnectFailed):
            await model.workers[A].send(CALL)
        await reply.aclose()


# ---- again and again


@pytest.mark.timeout(240)
async def test_hundreds_of_reloads_leave_nothing_behind() -> None:
    """No task, connection, worker, block, or model, whatever changed each time."""
    models_at_rest = _models_alive()  # other tests of this process keep some
    async with a_stage() as stage, serving(SimulatorOptions(port=0, speed=0)) as url:
        real = {"url": url, "id": "real"}
        tasks_at_rest = len(asyncio.all_tasks()) + 1 + 3  # the checks, and one for each worker

        def variant(i: int) -> Settings:
            others = [{"url": f"http://127.0.0.1:1/{i % 3}", "id": f"w{i % 5}"}, real | {"max_connections": 1 + i % 3}]
            one = {"workers": others, "strategy": ("session", "prefix_aware")[i % 2], "aliases": [f"alias-{i}"]}
            return settings({"one": one, f"model-{i % 4}": {"workers": [real | {"max_connections": 1 + i % 3}]}})

        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(stage.health.run())
            await asyncio.sleep(0)
            figures = []
            for i in range(241):
                stage.put(variant(i % 120))
                model = stage.models.find("one")
                model.fleet.set_up(WorkerId("real"), up=True)
                booking = book(model.fleet, a_request("abcdef"[: i % 7]), 100.0, WorkerId("real"))
                if i % 10 == 0:
                    reply = await model.workers[WorkerId("real")].send(CALL)
                    while await reply.read():
                        assert 200 == reply.status
                    await reply.aclose()
                model.fleet.bookings.release(booking, ANSWERED, 100.0)
                if i in (120, 240):  # the same settings
                    # A check is running, not yet cancelled, or still holds the model that it began with. Looking for
                    # models takes half a second in a process that has run many tests, so tasks are counted first.
                    while len(asyncio.all_tasks()) > tasks_at_rest or _models_alive() > models_at_rest + 2:
                        await asyncio.sleep(0.01)
                    figures.append(_figures(stage))
            running.cancel()

    assert figures[0] == figures[1]
    assert (3, 1, models_at_rest + 2, 0) == figures[0][:4]


def _models_alive() -> int:
    gc.collect()
    return sum(isinstance(each, Model) for each in gc.get_objects())


def _figures(stage: Stage) -> tuple[int, ...]:
    alive = gc.get_objects()
    return (
        sum(len(list(model.fleet)) for model in stage.models),
        sum(backend.connections_open for model in stage.models for backend in model.workers.values()),
        sum(isinstance(each, Model) for each in alive),
        sum(state.in_flight for model in stage.models for state in model.fleet),
        len(asyncio.all_tasks()),
        sum(isinstance(each, Worker) for each in alive),
        stage.index.size_bytes,
    )


@pytest.mark.parametrize(
    ("here", "penalties_s"), [("eu-1a", [0.0, 0.5, 0.0]), ("eu-1b", [0.5, 0.0, 0.0]), (None, [0.0, 0.0, 0.0])]
)
async def test_workers_of_other_zones_cost_more(stage: Stage, here: str | None, penalties_s: list[float]) -> None:
    """Those of which no one knows where they stand cost nothing more, nor does anybody where that is not known here."""
    zones = zip(workers("a", "b", "c"), ("eu-1a", "eu-1b", None), strict=True)
    entries = [{**worker, "zone": zone} for worker, zone in zones]
    model = stage.take({"tiny": {"workers": entries}}, server={"zone": here}, routing={"other_zone_s": 0.5})

    assert penalties_s == [state.zone_penalty_s for state in model.fleet]


# ---- models with the same workers


async def test_models_with_the_same_workers_see_each_others_load(stage: Stage) -> None:
    """From when they have them; and who has no worker in common sees nothing."""
    base = stage.take({"tiny": ["a", "b"], "other": ["c"]})
    before = busy(base, A)
    poet = {"workers": workers("b"), "adapter": {"of": "tiny", "path": "/poet", "load_on_demand": True}}
    base = stage.take({"tiny": ["a", "b"], "other": ["c"], "poet": poet})
    shared = busy(base, B)
    adapted, other = stage.models.find("poet"), stage.models.find("other")
    in_flight = state_of(adapted, B).in_flight, state_of(other, WorkerId("c")).in_flight
    for booking in (before, shared):
        base.fleet.bookings.release(booking, ANSWERED, 101.0)

    assert (1, 0) == in_flight
    assert [0, 0] == [state_of(model, B).in_flight for model in (base, adapted)]


async def test_an_adapter_knows_where_it_is(stage: Stage) -> None:
    poet = {"workers": workers("a", "b"), "adapter": {"of": "tiny", "path": "/poet", "load_on_demand": True}}
    models: Mapping[str, Any] = {"tiny": ["a", "b"], "poet": poet}
    base = stage.take(models, adapters={"load_s": 3.0})
    stage.reconciler.adapter_registry.listed("http://a:1", ["poet"], 100.0)
    stage.reconciler.adapter_registry.listed("http://b:1", [], 100.0)
    ways = [worker.zone_penalty_s for worker in stage.models.find("poet").fleet]
    stage.take({**models, "poet": {**poet, "aliases": ["verse"]}}, adapters={"load_s": 3.0})
    adapted = stage.models.find("verse")

    assert None is base.adapter
    assert [0.0, 3.0] == ways == [worker.zone_penalty_s for worker in adapted.fleet]
    assert adapted.adapter is not None
    assert (0.0, 3.0) == (adapted.adapter.price_s(A), adapted.adapter.price_s(B))


async def test_a_model_that_is_no_adapter_any_more_has_none(stage: Stage) -> None:
    """The settings changed, and with them what it is."""
    poet = {"workers": workers("a"), "adapter": {"of": "tiny"}}
    stage.take({"tiny": ["a"], "poet": poet})
    was = stage.models.find("poet").adapter
    stage.take({"tiny": ["a"], "poet": {"workers": workers("a")}})

    assert was is not None
    assert None is stage.models.find("poet").adapter


async def test_routes_go_with_the_settings(stage: Stage) -> None:
    """Their names too; what was counted stays."""
    routes = [{"name": "chat", "aliases": ["gpt-*"], "to": [{"model": "tiny"}]}]
    stage.take({"tiny": ["a"]})
    before = stage.models.routes
    stage.take({"tiny": ["a"]}, routes=routes)
    route, with_routes = stage.models.route("gpt-4"), stage.models.routes
    stage.take({"tiny": ["a"]})

    assert None is before
    assert route is not None
    assert ("chat", None) == (route.name, stage.models.route("gpt-4"))
    assert with_routes is not None
    assert stage.models.routes is not None
    assert with_routes.counters is stage.models.routes.counters


# ---- several workers behind one address


def ranked(stage: Stage, ranks: int, **more: Any) -> Model:
    """A model whose only address has so many ranks; all are up."""
    entry = {"url": "http://a:1", "id": "a", "ranks": ranks, **more}
    configured = settings({"tiny": AWARE | {"workers": [entry]}})
    models = expanded(model_workers(configured.models), nothing_known)
    stage.reconciler.take(serving_plan(configured, models, stage.fallback_factory))
    model = stage.models.find("tiny")
    for state in model.fleet:
        model.fleet.set_up(state.id, up=True)
    return model


def placed(model: Model) -> list[PlacedWorker]:
    return [backend for backend in model.workers.values() if isinstance(backend, PlacedWorker)]


async def test_ranks_share_the_connections_of_their_address(stage: Stage) -> None:
    """Also with those that come later; under another key all are others."""
    before = placed(ranked(stage, 2))
    more = placed(ranked(stage, 3))
    others = placed(ranked(stage, 3, api_key="k"))

    assert (before, 1) == (more[:2], len({id(each.address) for each in more}))
    assert {id(each.address) for each in more}.isdisjoint(id(each.address) for each in others)


async def test_a_rank_that_leaves_takes_nothing_from_the_others(stage: Stage) -> None:
    """What it had begun ends there; the address goes on."""
    first, second = placed(ranked(stage, 2))
    ranked(stage, 2, draining=True)

    assert {first, second} == set(first.address.occupants)
    alone = ranked(stage, 1)
    assert (set(), [WorkerId("a")]) == (set(first.address.occupants), list(alone.workers))


async def test_each_rank_is_followed_and_asked_with_its_header(stage: Stage) -> None:
    ranked(stage, 2, kv_events={"endpoint": "tcp://*:5557", "ranks": 2})
    reported = followed(stage)
    first, second = reported[WorkerId("a#0")], reported[WorkerId("a#1")]

    assert [(0, "a"), (1, "a")] == [(each.rank, each.name) for each in (first, second)]
    assert frozenset({("x-data-parallel-rank", "1")}) == second.headers
    assert second.sources is not None
    assert EventSource("tcp://a:5558", rank=1) == second.source_of(second.sources)


async def test_a_frontend_is_not_asked_where_its_workers_tell(stage: Stage) -> None:
    """Nothing is heard of one of which nothing was said."""
    ranked(stage, 1, dynamo={"instances": [{"id": 7}]})

    assert [EventSources(())] == [subject.sources for subject in followed(stage).values()]


async def test_a_request_that_finds_no_one_at_an_address_takes_out_all_who_are_there(stage: Stage) -> None:
    model = ranked(stage, 3)
    model.unreachable(WorkerId("a#1"))
    model.unreachable(WorkerId("gone"))

    assert [False] * 3 == [state.is_up for state in model.fleet]


async def test_an_address_that_ranks_share_is_checked_once_and_read_for_each() -> None:
    """With the gauges of each."""
    page = "".join(f'vllm:num_requests_waiting{{engine="{rank}"}} {rank + 5}\n' for rank in (0, 1))
    async with a_stage() as stage, fake_engine({"/health": Page(), "/metrics": Page(page)}) as engine:
        model = ranked(stage, 2, url=engine.url)
        await stage.health.check()
        waiting = {each.worker: each.values["engine_waiting"] for each in model.readings(0.0)}

    assert ({"a#0": 5.0, "a#1": 6.0}, 1) == (waiting, engine.times("/health"))

"""Each worker that is followed is tried out once, and what disagrees is said in words."""

import json
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from cache_index import WorkerId
from gateway.app.start_checks import Examination, StartChecks
from gateway.app.tokenizers import Tokenizers
from gateway.models.cache_check import Examinee, Verdict
from gateway.models.exact_prompts import ExactPrompts
from gateway.models.model import Model
from gateway.models.prefill_decode_plan import Flow
from gateway.models.tokenizing.exactness import NotExact
from gateway.models.tokenizing.later import LoadedLater
from gateway.models.tokenizing.loading import load_local
from gateway.models.tokenizing.token_source import RawPrompt
from gateway.workers.event_subscriptions import SubscriptionTarget
from gateway.workers.kv_events.feed import Trust
from simulator.tokenizer_folder import write_tokenizer
from tests.fakes.backends import Answers
from tests.gateway.examples import Clock, a_model
from tests.gateway.proxy.kv_transfer.examples import DividedModel
from tests.routing.confirmed_examples import MODEL, TOKEN_HASHER
from tests.routing.examples import A, B


class Finds:
    """A check that finds, one after the other, what it is reported to."""

    def __init__(self, *verdicts: Verdict) -> None:
        self.verdicts = list(verdicts)
        self.examined: list[Examinee] = []

    async def verdict(self, examinee: Examinee) -> Verdict:
        self.examined.append(examinee)
        return self.verdicts.pop(0)

    async def block_hash(self, examinee: Examinee) -> int | None:
        return 7 if examinee.worker == A else None


class Streams:
    """Those of a and b, in the states that a test gives them."""

    def __init__(self) -> None:
        self.followed = {w: SubscriptionTarget(w, f"http://{w}", frozenset({("x", "1")}), MODEL, None) for w in (A, B)}
        self.states: dict[WorkerId, Trust] = {A: "live", B: "live"}

    def subjects(self) -> dict[WorkerId, SubscriptionTarget]:
        return self.followed

    def state(self, worker: WorkerId) -> Trust | None:
        return self.states.get(worker)

    def blocks_heard(self, worker: WorkerId) -> int:
        return 7


class Nothing:
    async def ids(self, prompt: RawPrompt) -> NotExact:
        return NotExact("unavailable")


def a_followed_model(local: LoadedLater | None = None) -> Model:
    model = a_model(Answers(), Answers(), strategy_name="kv_aware")
    model.exact_prompts = ExactPrompts(
        Nothing(), model.fleet, hasher=TOKEN_HASHER, upstream_name=MODEL, base=MODEL, adapter=None, local=local
    )
    return model


@pytest.fixture
async def tokenizers() -> AsyncIterator[Tokenizers]:
    """Before an engine that makes one token of everything."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/tokenize":
            reported = json.dumps({"tokens": [1], "count": 1, "max_model_len": 100}).encode()
            return httpx.Response(200, stream=httpx.ByteStream(reported))
        return httpx.Response(404)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        yield Tokenizers(executor=ThreadPoolExecutor(1), client=client, clock=Clock())


async def test_each_worker_is_tried_once(tokenizers: Tokenizers) -> None:
    check, streams, model = Finds("agrees", "salt"), Streams(), a_followed_model()
    model.fleet.set_capacity(A, blocks=100, block_size=32)
    streams.states[B] = "catching_up"
    checks = StartChecks([model], streams, check, tokenizers)
    for _ in range(2):
        await checks.check()
    assert [("a", "http://a", {"x": "1"}, MODEL, 32, 7)] == [
        (e.worker, e.url, e.headers, e.upstream_name, e.block_size, e.blocks_heard()) for e in check.examined
    ]

    streams.states[B] = "live"
    await checks.check()
    assert ["a", "b"] == [examinee.worker for examinee in check.examined]
    assert (Examination("agrees", block_hash=7), Examination("salt"), None) == (
        checks.examination("tiny", A),
        checks.examination("tiny", B),
        checks.examination("other", A),
    )


async def test_what_disagrees_is_said(tokenizers: Tokenizers, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await StartChecks([a_followed_model()], Streams(), Finds("topic", "agrees"), tokenizers).check()

    assert [
        "worker a of model tiny published no KV events for a prompt; check the endpoint and topic of its KV events",
        "worker b of model tiny publishes KV events that match its cache",
    ] == caplog.messages


async def test_a_worker_that_is_followed_again_is_tried_again(tokenizers: Tokenizers) -> None:
    """At another address it may be another engine; one that is followed no more is forgotten."""
    check, streams = Finds("agrees", "agrees", "agrees"), Streams()
    checks = StartChecks([a_followed_model()], streams, check, tokenizers)
    await checks.check()
    streams.followed[A] = replace(streams.followed[A], url="http://elsewhere")
    del streams.followed[B]
    await checks.check()

    assert ["http://a", "http://b", "http://elsewhere"] == [examinee.url for examinee in check.examined]
    assert checks.examination("tiny", B) is None


async def test_a_model_that_follows_no_one_is_left_alone(tokenizers: Tokenizers) -> None:
    """Its strategy does not ask what engines hold."""
    check = Finds()
    await StartChecks([a_model(Answers(), Answers())], Streams(), check, tokenizers).check()

    assert [] == check.examined


async def test_prompts_that_the_engine_sees_differently_are_refused_from_then_on(
    tokenizers: Tokenizers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """This one makes one token of everything; the tokenizer here knows better, and yields."""
    write_tokenizer(tmp_path)
    with ThreadPoolExecutor(1) as executor:
        local = LoadedLater(
            lambda: load_local(tmp_path, executor=executor, budget_s=5), executor=executor, model="tiny"
        )
        checks = StartChecks([a_followed_model(local)], Streams(), Finds("tokens", "tokens"), tokenizers)
        while local.is_loading:
            await checks.check()  # not before it is there
        await checks.check()
        prompt = RawPrompt("/v1/completions", json.dumps({"prompt": "hello world"}).encode(), MODEL)

        assert NotExact("disagrees") == await local.ids(prompt)
    assert any("tokenizes prompts with chat, " in message for message in caplog.messages)


@pytest.mark.parametrize(("flow", "tried"), [("sglang", ["b"]), ("nixl", ["a", "b"])])
async def test_who_cannot_compute_a_whole_completion_is_not_tried(
    flow: Flow, tried: list[str], tokenizers: Tokenizers
) -> None:
    """SGLang's halves would refuse it; vLLM's can."""
    check, model = Finds("agrees", "agrees"), a_followed_model()
    model.prefill_decode = DividedModel(Answers(), flow=flow).prefill_decode
    model.fleet.members.set_roles({A: "prefill"})
    await StartChecks([model], Streams(), check, tokenizers).check()

    assert tried == [examinee.worker for examinee in check.examined]

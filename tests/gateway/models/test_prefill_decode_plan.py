"""The division of requests, and their prefill workers."""

import asyncio

import pytest

from gateway.models.prefill_decode_plan import BOOTSTRAP_PORT
from gateway.protocol.body import Body, without_prompt
from routing.disaggregation import HopRule
from tests.fakes.backends import Answers
from tests.gateway.proxy.kv_transfer.examples import DividedModel, divided_request
from tests.routing.examples import A, B, a_request

pytestmark = pytest.mark.interpreted

CHAT = "/v1/chat/completions"
BODY = without_prompt("tiny", max_tokens=None).changed(reads_cache=True, writes_cache=True)


def model(**reported: object) -> DividedModel:
    return DividedModel(Answers(), Answers(), decode=(Answers(), Answers()), **reported)  # type: ignore[arg-type]


def divides(stage: DividedModel, path: str = CHAT, **body: object) -> bool:
    asked: Body = BODY.changed(**body)
    return stage.prefill_decode.divided(a_request(), path, asked).divides


class TestWhatIsDivided:
    def test_chats_and_completions_are(self) -> None:
        assert [True, True, False, False] == [
            divides(model(), path) for path in (CHAT, "/v1/completions", "/v1/responses", "/v1/embeddings")
        ]

    def test_what_the_engine_computes_anyway_is_not(self) -> None:
        assert not divides(model(), reads_cache=False)
        assert not divides(model(), writes_cache=False)

    def test_nor_is_what_only_one_worker_can_answer(self) -> None:
        pinned = a_request().changed(pinned=A)

        assert not model().prefill_decode.divided(pinned, CHAT, BODY).divides

    def test_several_answers_are_by_sglang_only(self) -> None:
        assert [False, True] == [divides(model(flow=flow), n=2) for flow in ("nixl", "sglang")]

    def test_a_single_token_is_the_prefill_itself(self) -> None:
        assert [False, True] == [divides(model(flow=flow), max_tokens=1) for flow in ("nixl", "sglang")]
        assert divides(model(), max_tokens=2)


class TestPrefillWorkers:
    def test_their_half_ends_with_its_first_byte(self) -> None:
        half = model().prefill_decode.prefill_request(divided_request(streams=False))

        assert (True, 1.0, None) == (half.streams, half.output_tokens, half.spill_in_s)

    def test_they_are_ordered_by_the_models_strategy_or_the_one_that_is_asked_for(self) -> None:
        prefill_decode = model().prefill_decode

        assert [A, B] == [candidate.worker for candidate in prefill_decode.order(divided_request(), 100.0)]
        assert "prefix_aware" == prefill_decode.strategy_of(divided_request())
        assert "session" == prefill_decode.strategy_of(a_request(strategy="session"))

    def test_they_are_met_at_their_port(self) -> None:
        prefill_decode = model(flow="sglang").prefill_decode

        assert [9000, BOOTSTRAP_PORT] == [prefill_decode.bootstrap_port(A), prefill_decode.bootstrap_port(B)]
        assert 2 == len({prefill_decode.room(), prefill_decode.room()})


class TestExplanation:
    @pytest.fixture
    def stage(self) -> DividedModel:
        return model()

    def reported(self, stage: DividedModel, prompt_tokens: float = 1000.0) -> dict[str, object]:
        explanation = stage.model.dispatch_queue.explain(divided_request(prompt_tokens=prompt_tokens))
        return stage.prefill_decode.explain(explanation, 100.0)

    def test_it_says_who_would_compute_and_who_would_fetch(self, stage: DividedModel) -> None:
        """A token takes 1 ms, and 5 us to be fetched: 20 ms are the time of 20.1 tokens."""
        reported = self.reported(stage)
        workers, ttft_s = reported.pop("workers"), reported.pop("predicted_ttft_s")

        assert 0.01 + 1.0 + 0.025 == pytest.approx(ttft_s, abs=0.01)
        assert {
            "flow": "nixl",
            "divides": True,
            "decode_worker": reported["decode_worker"],
            "hops": True,
            "min_uncached_tokens": 20.1,
            "fetched_tokens": 1000.0,
            "strategy": "prefix_aware",
        } == reported
        assert reported["decode_worker"] in {"c", "d"}
        assert isinstance(workers, list)
        assert [(1, "a"), (2, "b")] == [(each["rank"], each["worker"]) for each in workers]

    def test_a_short_prompt_would_stay(self, stage: DividedModel) -> None:
        reported = self.reported(stage, prompt_tokens=5)

        assert (False, 0.0, None) == (reported["hops"], reported["fetched_tokens"], reported["predicted_ttft_s"])

    def test_so_would_any_without_a_prefill_worker_or_anybody(self, stage: DividedModel) -> None:
        for worker in list(stage.fleet)[:2]:
            stage.fleet.set_up(worker.id, up=False)
        assert (False, []) == (self.reported(stage)["hops"], self.reported(stage)["workers"])

        for worker in stage.fleet:
            stage.fleet.set_up(worker.id, up=False)
        reported = self.reported(stage)
        assert (None, False, None, 0.0) == (
            *(
                reported["decode_worker"],
                reported["hops"],
                reported["min_uncached_tokens"],
                reported["fetched_tokens"],
            ),
        )

    def test_it_changes_nothing(self, stage: DividedModel) -> None:
        before = [self.reported(stage) for _ in range(3)]

        assert before == [before[0]] * 3
        assert [] == stage.fleet.booked

    def test_a_rule_of_the_settings_is_reported(self) -> None:
        assert 700.0 == self.reported(model(rule=HopRule(min_uncached_tokens=700)))["min_uncached_tokens"]


class TestHalves:
    async def test_one_goes_on_to_its_end(self) -> None:
        prefill_decode, done = model().prefill_decode, asyncio.Event()

        async def half() -> int:
            await done.wait()
            return 7

        task = prefill_decode.begin(half())
        done.set()
        assert 7 == await task

    async def test_one_that_fails_is_no_surprise_to_anybody(self) -> None:
        """asyncio would complain of an exception that no one asked for."""
        prefill_decode = model().prefill_decode

        async def half() -> None:
            raise ValueError

        task = prefill_decode.begin(half())
        await asyncio.wait({task})
        assert task.done()

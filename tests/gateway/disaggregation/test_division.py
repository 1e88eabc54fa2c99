"""Which requests are divided, and who is there for their prompts."""

import asyncio

import pytest

from gateway.body import Body, without_prompt
from gateway.disaggregation.division import BOOTSTRAP_PORT
from routing.disaggregation import Rule
from tests.fakes.backends import Answers
from tests.gateway.disaggregation.examples import DividedModel, divided_request
from tests.routing.examples import A, B, a_request

CHAT = "/v1/chat/completions"
BODY = without_prompt("tiny", max_tokens=None).changed(reads_cache=True, writes_cache=True)


def model(**told: object) -> DividedModel:
    return DividedModel(Answers(), Answers(), decode=(Answers(), Answers()), **told)  # type: ignore[arg-type]


def divides(stage: DividedModel, path: str = CHAT, **body: object) -> bool:
    asked: Body = BODY.changed(**body)
    return stage.division.divided(a_request(), path, asked).divides


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

        assert not model().division.divided(pinned, CHAT, BODY).divides

    def test_several_answers_are_by_sglang_only(self) -> None:
        assert [False, True] == [divides(model(flow=flow), n=2) for flow in ("nixl", "sglang")]

    def test_a_single_token_is_the_prefill_itself(self) -> None:
        assert [False, True] == [divides(model(flow=flow), max_tokens=1) for flow in ("nixl", "sglang")]
        assert divides(model(), max_tokens=2)


class TestPrefillWorkers:
    def test_their_half_ends_with_its_first_byte(self) -> None:
        half = model().division.prefill_request(divided_request(streams=False))

        assert (True, 1.0, None) == (half.streams, half.output_tokens, half.spill_in_s)

    def test_they_are_ordered_by_the_models_strategy_or_the_one_that_is_asked_for(self) -> None:
        division = model().division

        assert [A, B] == [candidate.worker for candidate in division.order(divided_request(), 100.0)]
        assert "prefix_aware" == division.strategy_of(divided_request())
        assert "session" == division.strategy_of(a_request(strategy="session"))

    def test_they_are_met_at_their_port(self) -> None:
        division = model(flow="sglang").division

        assert [9000, BOOTSTRAP_PORT] == [division.bootstrap_port(A), division.bootstrap_port(B)]
        assert 2 == len({division.room(), division.room()})


class TestExplanation:
    @pytest.fixture
    def stage(self) -> DividedModel:
        return model()

    def told(self, stage: DividedModel, prompt_tokens: float = 1000.0) -> dict[str, object]:
        explanation = stage.model.turnstile.explain(divided_request(prompt_tokens=prompt_tokens))
        return stage.division.explain(explanation, 100.0)

    def test_it_says_who_would_compute_and_who_would_fetch(self, stage: DividedModel) -> None:
        """A token takes 1.15 ms, believed with caution, and 5 us to be fetched: 20 ms are the time of 17.5 tokens."""
        told = self.told(stage)
        workers, ttft_s = told.pop("workers"), told.pop("predicted_ttft_s")

        assert 0.01 * 1.15 + 1.15 + 0.025 == pytest.approx(ttft_s, abs=0.01)
        assert {
            "flow": "nixl",
            "divides": True,
            "decode_worker": told["decode_worker"],
            "hops": True,
            "least_uncached_tokens": 17.5,
            "fetched_tokens": 1000.0,
            "strategy": "prefix_aware",
        } == told
        assert told["decode_worker"] in {"c", "d"}
        assert isinstance(workers, list)
        assert [(1, "a"), (2, "b")] == [(each["rank"], each["worker"]) for each in workers]

    def test_a_short_prompt_would_stay(self, stage: DividedModel) -> None:
        told = self.told(stage, prompt_tokens=5)

        assert (False, 0.0, None) == (told["hops"], told["fetched_tokens"], told["predicted_ttft_s"])

    def test_so_would_any_without_a_prefill_worker_or_anybody(self, stage: DividedModel) -> None:
        for worker in list(stage.fleet)[:2]:
            stage.fleet.set_up(worker.id, up=False)
        assert (False, []) == (self.told(stage)["hops"], self.told(stage)["workers"])

        for worker in stage.fleet:
            stage.fleet.set_up(worker.id, up=False)
        told = self.told(stage)
        assert (None, False, None, 0.0) == (
            *(told["decode_worker"], told["hops"], told["least_uncached_tokens"], told["fetched_tokens"]),
        )

    def test_it_changes_nothing(self, stage: DividedModel) -> None:
        before = [self.told(stage) for _ in range(3)]

        assert before == [before[0]] * 3
        assert [] == stage.fleet.booked

    def test_a_rule_of_the_settings_is_told(self) -> None:
        assert 700.0 == self.told(model(rule=Rule(least_uncached_tokens=700)))["least_uncached_tokens"]


class TestHalves:
    async def test_one_goes_on_to_its_end(self) -> None:
        division, done = model().division, asyncio.Event()

        async def half() -> int:
            await done.wait()
            return 7

        task = division.begin(half())
        done.set()
        assert 7 == await task

    async def test_one_that_fails_is_no_surprise_to_anybody(self) -> None:
        """asyncio would complain of an exception that nobody asked for."""
        division = model().division

        async def half() -> None:
            raise ValueError

        task = division.begin(half())
        await asyncio.wait({task})
        assert task.done()

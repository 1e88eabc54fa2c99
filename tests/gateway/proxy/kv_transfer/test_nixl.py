"""vLLM's flow: prefill, then decode with what the prefill worker said."""

import asyncio
import json

import pytest

from gateway.protocol.errors import UpstreamRefused
from gateway.protocol.usage import Usage
from gateway.proxy.kv_transfer.nixl import prefill_body
from routing.booking import Ending, Outcome
from routing.disaggregation import HopRule
from routing.retry_budget import RetryBudget
from tests.fakes.backends import Answers, BreaksAfter, Fake, Hangs, Refuses, ScriptedReply, Streams
from tests.gateway.examples import DONE, HELLO
from tests.gateway.proxy.kv_transfer.examples import FETCHED, PARAMS, PREFILLED, DividedModel, Trial

pytestmark = pytest.mark.interpreted

USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":2,'
    b'"prompt_tokens_details":{"cached_tokens":992}}}\n\n'
)


class InTurn(Fake):
    """Answers each call like the next of *others*."""

    def __init__(self, *others: Fake) -> None:
        super().__init__()
        self._others = list(others)

    async def _reply(self) -> ScriptedReply:
        return await self._others.pop(0)._reply()


def bodies(worker: Fake) -> list[dict[str, object]]:
    return [json.loads(call.body) for call in worker.calls]


def params(worker: Fake) -> list[object]:
    return [body.get("kv_transfer_params") for body in bodies(worker)]


class TestBody:
    def test_it_asks_for_one_token_and_the_blocks_without_streaming(self) -> None:
        body = json.loads(prefill_body(b'{"model":"m","stream":true,"max_tokens":100,"temperature":0.50}'))

        assert {
            "model": "m",
            "stream": False,
            "max_tokens": 1,
            "temperature": 0.5,
            "kv_transfer_params": {
                "do_remote_decode": True,
                "do_remote_prefill": False,
                "remote_engine_id": None,
                "remote_block_ids": None,
                "remote_host": None,
                "remote_port": None,
            },
        } == body

    def test_fields_about_streams_and_lengths_are_replaced(self) -> None:
        given = b'{"stream_options":{"include_usage":true},"max_completion_tokens":50,"min_tokens":5}'
        body = json.loads(prefill_body(given))

        assert (None, 1, 0) == (body["stream_options"], body["max_completion_tokens"], body["min_tokens"])

    def test_missing_fields_are_not_added(self) -> None:
        """Their names in a text do not count."""
        body = json.loads(prefill_body(b'{"prompt":"min_tokens","x":{"min_tokens":3,"stream_options":1}}'))

        assert {"stream_options", "max_completion_tokens", "min_tokens"}.isdisjoint(body)


class TestBothSteps:
    async def test_the_decode_worker_gets_the_params(self) -> None:
        prefill, decode = Answers(200, PREFILLED), Answers(200, FETCHED)
        trial = Trial(DividedModel(prefill, decode=(decode,)))
        answer = json.loads(await trial.run())

        assert [json.loads(PARAMS.replace(b"localhost", b"a"))] == params(decode)
        assert [False] == [call.streams for call in prefill.calls]
        assert 16 == answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert Usage(1000, 2, 16) == trial.exchange.usage
        assert ("a", "b", "remote") == (trial.exchange.prefill_worker, trial.exchange.backend, trial.exchange.prefill)

    async def test_a_reachable_host_stays(self) -> None:
        prefill = Answers(200, PREFILLED.replace(b"localhost", b"10.0.0.5"))
        decode = Answers(200, FETCHED)
        await Trial(DividedModel(prefill, decode=(decode,))).run()

        assert [json.loads(PARAMS.replace(b"localhost", b"10.0.0.5"))] == params(decode)

    async def test_a_setting_keeps_loopback_hosts(self) -> None:
        decode = Answers(200, FETCHED)
        await Trial(DividedModel(Answers(200, PREFILLED), decode=(decode,), replace_loopback=False)).run()

        assert [json.loads(PARAMS)] == params(decode)

    @pytest.mark.parametrize("odd", [b'{"a":1}', b'{"remote_host":[1]}'])
    async def test_unknown_params_pass_unchanged(self, odd: bytes) -> None:
        prefill, decode = Answers(200, PREFILLED.replace(PARAMS, odd)), Answers(200, FETCHED)
        await Trial(DividedModel(prefill, decode=(decode,))).run()

        assert [json.loads(odd)] == params(decode)

    async def test_a_stream_has_the_prefill_workers_count(self) -> None:
        decode = Streams(HELLO, USAGE, DONE)
        trial = Trial(DividedModel(Answers(200, PREFILLED), decode=(decode,)), streams=True)

        assert HELLO + USAGE.replace(b"992", b"16") + DONE == await trial.run()
        assert Usage(1000, 2, 16) == trial.exchange.usage

    async def test_the_time_of_a_transfer_is_learned_from_streams(self) -> None:
        model = DividedModel(Answers(200, PREFILLED), decode=(Streams(HELLO, USAGE, DONE),))
        before = model.handover.seconds(1000)
        await Trial(model, streams=True).run()

        assert model.handover.seconds(1000) < before  # the clock of the test stands still


class TestBookings:
    async def test_the_prefill_slot_is_released_with_the_answer(self) -> None:
        model = DividedModel(Answers(200, PREFILLED))
        trial = Trial(model)
        await trial.run()

        assert {"a": 0, "b": 1} == trial.loads
        assert {"a": 0, "b": 0} == model.in_flight()
        assert [("a", Ending.ANSWERED), ("b", Ending.ANSWERED)] == model.fleet.endings
        assert [Outcome(Ending.ANSWERED, 1000, 16), Outcome(Ending.ANSWERED, 1000, 16, 2)] == model.fleet.outcomes
        assert [True, False] == [booking.is_remote for booking in model.fleet.booked]

    async def test_both_slots_are_held_during_the_prefill(self) -> None:
        prefill = Hangs()
        model = DividedModel(prefill)
        asking = asyncio.ensure_future(Trial(model).run())
        await prefill.hanging.wait()

        assert {"a": 1, "b": 1} == model.in_flight()
        assert (0.0, 1) == (model.fleet.worker(model.fleet.booked[0].worker).load(100.0).backlog_s, 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert {"a": 0, "b": 0} == model.in_flight()
        assert {("a", Ending.ABORTED), ("b", Ending.ABORTED)} == set(model.fleet.endings)


class TestPrefillWorkersThatFail:
    @pytest.mark.parametrize(
        "failing",
        [
            Answers(500, b"{}"),
            BreaksAfter(0),
            Refuses(),
            Answers(200, b'{"choices":[],"kv_transfer_params":null}'),
            Answers(200, b'{"choices":[]}'),
            Answers(200, b"no JSON"),
        ],
    )
    async def test_another_prefill_worker_is_asked(self, failing: Fake) -> None:
        failing.calls.clear()
        decode = Answers(200, FETCHED)
        model = DividedModel(failing, Answers(200, PREFILLED), decode=(decode,))
        trial = Trial(model)
        await trial.run()

        assert ("b", "remote", 1) == (trial.exchange.prefill_worker, trial.exchange.prefill, len(decode.calls))
        assert ("a", Ending.FAILED) == model.fleet.endings[0]

    async def test_an_unreachable_prefill_worker_is_down(self) -> None:
        model = DividedModel(Refuses(), Answers(200, PREFILLED))
        await Trial(model).run()

        assert [False, True, True] == [worker.is_up for worker in model.fleet]

    async def test_an_overloaded_prefill_worker_is_healthy(self) -> None:
        model = DividedModel(Answers(429, b"{}"), Answers(200, PREFILLED))
        await Trial(model).run()

        assert ("a", Ending.REFUSED) == model.fleet.endings[0]

    async def test_the_decode_worker_computes_if_all_fail(self) -> None:
        decode = Answers(200, FETCHED)
        model = DividedModel(Answers(500, b"{}"), Answers(503, b"{}"), decode=(decode,))
        trial = Trial(model)
        answer = json.loads(await trial.run())

        assert [None] == params(decode)
        assert 992 == answer["usage"]["prompt_tokens_details"]["cached_tokens"]  # which are its own now
        assert (None, "failed", "c") == (trial.exchange.prefill_worker, trial.exchange.prefill, trial.exchange.backend)
        *_, last = model.fleet.booked
        assert ("c", False) == (last.worker, last.is_remote)

    async def test_at_most_three_prefill_workers_fail(self) -> None:
        failing = [Answers(500, b"{}") for _ in range(5)]
        decode = Answers(200, FETCHED)
        await Trial(DividedModel(*failing, decode=(decode,))).run()

        assert [1, 1, 1, 0, 0] == [len(worker.calls) for worker in failing]
        assert [None] == params(decode)

    async def test_a_4xx_comes_from_the_decode_worker(self) -> None:
        prefill, decode = Answers(400, b'{"error":{"message":"one"}}'), Answers(400, b'{"error":{"message":"two"}}')
        model = DividedModel(prefill, Answers(200, PREFILLED), decode=(decode,))
        trial = Trial(model)

        assert b"two" in await trial.run()
        assert ("a", Ending.REFUSED) == model.fleet.endings[0]
        assert 1 == len(prefill.calls)

    async def test_a_second_prefill_needs_retry_budget(self) -> None:
        failing, second = Answers(500, b"{}"), Answers(200, PREFILLED)
        await Trial(DividedModel(failing, second, retry_budget=RetryBudget(0.0, 0.0))).run()

        assert [1, 0] == [len(failing.calls), len(second.calls)]


class TestDecodeWorkersThatFail:
    async def test_an_unreachable_decode_worker_leaves_the_blocks_to_another(self) -> None:
        prefill, gone, decode = Answers(200, PREFILLED), Refuses(), Answers(200, FETCHED)
        model = DividedModel(prefill, decode=(gone, decode))
        model.fleet.members.set_zone_penalties({next(w.id for w in model.fleet if w.id == "c"): 1.0})
        trial = Trial(model)
        await trial.run()

        assert (1, 1, "c") == (len(prefill.calls), len(gone.calls), trial.exchange.backend)
        assert [json.loads(PARAMS.replace(b"localhost", b"a"))] == params(decode)

    @pytest.mark.parametrize("failing", [Answers(500, b"{}"), BreaksAfter(0)])
    async def test_params_are_not_reused_if_they_may_have_been_fetched(self, failing: Fake) -> None:
        failing.calls.clear()
        prefill, decode = Answers(200, PREFILLED), Answers(200, FETCHED)
        model = DividedModel(prefill, decode=(failing, decode))
        model.fleet.members.set_zone_penalties({next(w.id for w in model.fleet if w.id == "c"): 1.0})
        trial = Trial(model)
        await trial.run()

        assert (1, 1, [None]) == (len(prefill.calls), len(failing.calls), params(decode))
        assert "failed" == trial.exchange.prefill

    async def test_a_decode_worker_that_refuses_params_is_asked_without(self) -> None:
        refusing = InTurn(Answers(400, b'{"error":{"message":"unknown engine"}}'), Answers(200, FETCHED))
        model = DividedModel(Answers(200, PREFILLED), decode=(refusing,))
        trial = Trial(model)

        assert FETCHED == await trial.run()
        assert None is params(refusing)[1]
        assert all(reply.closed for reply in refusing.replies)

    async def test_the_error_is_that_of_the_last_decode_worker(self) -> None:
        model = DividedModel(Answers(200, PREFILLED), decode=(Answers(500, b"{}"), Answers(500, b"{}")))
        with pytest.raises(UpstreamRefused):
            await Trial(model).run()

        assert {"a": 0, "b": 0, "c": 0} == model.in_flight()


class TestShortPrompts:
    async def test_they_are_not_divided(self) -> None:
        prefill, decode = Answers(200, PREFILLED), Answers(200, FETCHED)
        trial = Trial(DividedModel(prefill, decode=(decode,)), prompt_tokens=10)
        await trial.run()

        assert (0, [None], "here") == (len(prefill.calls), params(decode), trial.exchange.prefill)

    async def test_busy_prefill_workers_get_none(self) -> None:
        prefill, decode = Answers(200, PREFILLED), Answers(200, FETCHED)
        model = DividedModel(prefill, decode=(decode,))
        waiting = Trial(model, prompt_tokens=50_000).request
        [busy] = model.fleet.prefill_candidates(waiting, 100.0)
        model.fleet.bookings.book(waiting, busy, 100.0)
        trial = Trial(model)
        await trial.run()

        assert (0, "here") == (len(prefill.calls), trial.exchange.prefill)

    async def test_a_setting_divides_them(self) -> None:
        prefill = Answers(200, PREFILLED)
        await Trial(DividedModel(prefill, rule=HopRule(min_uncached_tokens=10)), prompt_tokens=10).run()

        assert 1 == len(prefill.calls)

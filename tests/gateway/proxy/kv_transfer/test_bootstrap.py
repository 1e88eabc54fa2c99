"""SGLang's flow: both halves at once, in a room."""

import asyncio
import contextlib
import json

import pytest

from gateway.protocol.errors import NoWorker, UpstreamRefused
from gateway.protocol.usage import Usage
from routing.booking import Ending
from routing.disaggregation import HopRule
from tests.fakes.backends import Answers, BreaksAfter, Fake, Hangs, Raises, Refuses, ScriptedReply, Streams
from tests.gateway.examples import DONE, HELLO
from tests.gateway.proxy.kv_transfer.examples import FETCHED, PREFILLED, DividedModel, Trial

pytestmark = pytest.mark.interpreted

USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":%d,'
    b'"prompt_tokens_details":{"cached_tokens":%d}}}\n\n'
)
ALWAYS = HopRule(always=True)


class Late(Fake):
    """Answers like *other*, once `gate` is set."""

    def __init__(self, other: Fake) -> None:
        super().__init__()
        self._other = other
        self.gate = asyncio.Event()

    async def _reply(self) -> ScriptedReply:
        await self.gate.wait()
        return await self._other._reply()


class Meets(Fake):
    """Answers like *other*, once one of *others* has begun to: a decode worker waits for its prefill worker."""

    def __init__(self, other: Fake, *others: Fake) -> None:
        super().__init__()
        self._other = other
        self._others = others

    async def _reply(self) -> ScriptedReply:
        while not any(worker.replies for worker in self._others):
            await asyncio.sleep(0)
        return await self._other._reply()


def divided(*prefill: Fake, decode: tuple[Fake, ...]) -> DividedModel:
    return DividedModel(*prefill, decode=decode, flow="sglang", rule=ALWAYS)


def rooms(*workers: Fake) -> list[list[tuple[object, object]]]:
    """Return the bootstrap host and port in each call to each of *workers*."""
    asked = [[json.loads(call.body) for call in worker.calls] for worker in workers]
    return [[(body["bootstrap_host"], body["bootstrap_port"]) for body in bodies] for bodies in asked]


def numbers(*workers: Fake) -> list[list[int]]:
    return [[json.loads(call.body)["bootstrap_room"] for call in worker.calls] for worker in workers]


async def test_both_get_the_same_request_at_once() -> None:
    prefill, decode = Answers(200, PREFILLED), Answers(200, FETCHED)
    trial = Trial(divided(prefill, decode=(decode,)))
    await trial.run()

    assert [call.body for call in prefill.calls] == [call.body for call in decode.calls]
    assert [[("a", 9000)], [("a", 9000)]] == rooms(prefill, decode)
    assert 0 <= numbers(prefill)[0][0] < 2**63
    assert ("a", "b", "remote") == (trial.exchange.prefill_worker, trial.exchange.backend, trial.exchange.prefill)


async def test_each_request_has_its_room_and_each_worker_its_port() -> None:
    prefill, other, decode = Answers(200, PREFILLED), Answers(200, PREFILLED), Answers(200, FETCHED)
    model = divided(prefill, other, decode=(decode,))
    for _ in range(3):
        await Trial(model).run()
    model.fleet.set_up(next(worker.id for worker in model.fleet), up=False)
    await Trial(model).run()

    assert 4 == len(set(numbers(decode)[0]))
    assert [("b", 8998)] == rooms(other)[0]


async def test_short_prompts_use_both_workers_too() -> None:
    prefill = Answers(200, PREFILLED)
    await Trial(divided(prefill, decode=(Answers(200, FETCHED),)), prompt_tokens=1).run()

    assert 1 == len(prefill.calls)


async def test_the_answer_has_the_prefill_workers_count() -> None:
    """The answer comes after the prefill worker is done."""
    prefill = Answers(200, PREFILLED)
    trial = Trial(divided(prefill, decode=(Meets(Answers(200, FETCHED), prefill),)))
    await trial.run()

    assert Usage(1000, 2, 16) == trial.exchange.usage


async def test_a_stream_has_the_prefill_workers_count() -> None:
    prefill = Streams(HELLO, USAGE % (1, 16), DONE)
    decode = Meets(Streams(HELLO, HELLO, HELLO, HELLO, USAGE % (2, 992), DONE), prefill)
    trial = Trial(divided(prefill, decode=(decode,)), streams=True)
    result = await trial.run()

    assert result.endswith(USAGE % (2, 16) + DONE)
    assert Usage(1000, 2, 16) == trial.exchange.usage


async def test_the_prefill_workers_answer_is_read_to_its_end() -> None:
    prefill = Late(Answers(200, PREFILLED))
    model = divided(prefill, decode=(Answers(200, FETCHED),))
    await Trial(model).run()
    assert {"a": 1, "b": 0} == model.in_flight()

    prefill.gate.set()
    async with asyncio.timeout(60):
        while model.in_flight() != {"a": 0, "b": 0}:
            await asyncio.sleep(0)
    assert [("b", Ending.ANSWERED), ("a", Ending.ANSWERED)] == model.fleet.endings
    assert [True] == [reply.closed for reply in prefill.replies]


async def test_an_unread_prefill_answer_is_cut_when_the_gateway_ends() -> None:
    prefill = Hangs()
    model = divided(prefill, decode=(Answers(200, FETCHED),))
    await Trial(model).run()
    await model.prefill_decode.aclose()

    assert (True, {"a": 0, "b": 0}) == (prefill.given_up, model.in_flight())
    await model.prefill_decode.aclose()


@pytest.mark.parametrize(
    "failing", [Answers(500, b"{}"), BreaksAfter(0), Refuses(), Raises(UpstreamRefused("", status=503))]
)
async def test_a_failed_prefill_cancels_the_decode_half(failing: Fake) -> None:
    """Its blocks would never come; both halves begin again with another worker."""
    failing.calls.clear()
    prefill = Answers(200, PREFILLED)
    decode = Meets(Answers(200, FETCHED), prefill)
    model = divided(failing, prefill, decode=(decode,))
    trial = Trial(model)
    await trial.run()

    assert [1, 1, 2] == [len(worker.calls) for worker in (failing, prefill, decode)]
    assert ("b", 1) == (trial.exchange.prefill_worker, trial.exchange.attempts)
    assert {"a": 0, "b": 0, "c": 0} == model.in_flight()
    assert [Ending.ANSWERED] == [ending for worker, ending in model.fleet.endings if worker == "c"]


async def test_without_a_prefill_worker_the_request_fails() -> None:
    """It does not count against the decode worker."""
    decode = Hangs()
    model = divided(Refuses(), decode=(decode,))
    trial = Trial(model)
    with pytest.raises(NoWorker):
        await trial.run()

    assert (True, "failed") == (decode.given_up, trial.exchange.prefill)
    assert [Ending.ABORTED] == [ending for worker, ending in model.fleet.endings if worker == "b"]


async def test_the_first_4xx_goes_to_the_caller() -> None:
    for prefill, decode in (
        (Answers(400, b'{"error":{"message":"wrong"}}'), Hangs()),
        (Hangs(), Answers(400, b'{"error":{"message":"wrong"}}')),
    ):
        model = divided(prefill, decode=(decode,))

        assert b"wrong" in await Trial(model).run()
        await model.prefill_decode.aclose()
        assert {"a": 0, "b": 0} == model.in_flight()
        assert all(reply.closed for worker in (prefill, decode) for reply in worker.replies)


async def test_a_failed_decode_cancels_the_prefill_half() -> None:
    hanging = Hangs()
    model = divided(hanging, decode=(Answers(500, b"{}"),))
    with pytest.raises(UpstreamRefused):
        await Trial(model).run()

    assert (True, {"a": 0, "b": 0}) == (hanging.given_up, model.in_flight())
    assert [("a", Ending.ABORTED), ("b", Ending.FAILED)] == model.fleet.endings


async def test_a_disconnect_cancels_both_halves() -> None:
    prefill, decode = Hangs(), Hangs()
    model = divided(prefill, decode=(decode,))
    asking = asyncio.ensure_future(Trial(model).run())
    await asyncio.gather(prefill.hanging.wait(), decode.hanging.wait())
    assert {"a": 1, "b": 1} == model.in_flight()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert (True, True, {"a": 0, "b": 0}) == (prefill.given_up, decode.given_up, model.in_flight())


async def test_a_prefill_worker_may_break_after_its_first_token() -> None:
    prefill = BreaksAfter(1, HELLO)
    model = divided(prefill, decode=(Meets(Streams(HELLO, USAGE % (2, 992), DONE), prefill),))
    await Trial(model, streams=True).run()

    assert Ending.ANSWERED in [ending for worker, ending in model.fleet.endings if worker == "a"]


async def test_a_computed_prompt_waits_to_be_fetched() -> None:
    """The prefill worker's answer comes first, the decode worker's later."""
    decode = Late(Answers(200, FETCHED))
    prefill = Answers(200, PREFILLED)
    model = divided(prefill, decode=(decode,))
    asking = asyncio.ensure_future(Trial(model).run())
    async with asyncio.timeout(60):
        while not prefill.replies or model.in_flight()["a"]:
            await asyncio.sleep(0)
    decode.gate.set()

    assert b"Hello" in await asking


async def test_a_stream_that_is_read_to_its_end_is_cut_when_the_gateway_ends() -> None:
    prefill = Hangs(HELLO)
    model = divided(prefill, decode=(Streams(HELLO, USAGE % (2, 992), DONE),))
    await Trial(model, streams=True).run()
    await prefill.hanging.wait()
    await model.prefill_decode.aclose()

    assert ([True], {"a": 0, "b": 0}) == ([reply.closed for reply in prefill.replies], model.in_flight())


class TooLate(Fake):
    """Answers when its caller waits no longer."""

    async def _reply(self) -> ScriptedReply:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return ScriptedReply(200, [], [FETCHED])


async def test_an_answer_that_comes_too_late_is_closed() -> None:
    decode = TooLate()
    model = divided(Answers(500, b"{}"), decode=(decode,))
    with pytest.raises(NoWorker):
        await Trial(model).run()

    assert [True] == [reply.closed for reply in decode.replies]


async def test_a_request_waits_for_a_prefill_worker() -> None:
    """A restart takes a while."""
    prefill = Answers(200, PREFILLED)
    model = divided(prefill, decode=(Answers(200, FETCHED),))
    worker = next(iter(model.fleet)).id
    model.fleet.set_up(worker, up=False)
    asking = asyncio.ensure_future(Trial(model, wait_s=300.0).run())
    async with asyncio.timeout(60):
        while not model.model.arrivals.waiting:
            await asyncio.sleep(0)
    assert "no prefill worker is ready" == model.model.why_no_worker()
    model.fleet.set_up(worker, up=True)
    model.model.came_up()

    assert b"Hello" in await asking
    assert None is model.model.why_no_worker()


async def test_the_wait_for_a_prefill_worker_ends_with_the_deadline() -> None:
    model = divided(Answers(200, PREFILLED), decode=(Answers(200, FETCHED),))
    model.fleet.set_up(next(iter(model.fleet)).id, up=False)
    trial = Trial(model, wait_s=600.0)
    trial.request = trial.request.changed(deadline_s=0.01)
    with pytest.raises(NoWorker):
        await trial.run()


async def test_an_early_disconnect_leaves_no_slot_behind() -> None:
    """A task that is cancelled before it begins never releases its slot itself."""
    prefill, decode = Hangs(), Hangs()
    model = divided(prefill, decode=(decode,))
    asking = asyncio.ensure_future(Trial(model).run())
    while not model.fleet.booked[1:]:
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert {"a": 0, "b": 0} == model.in_flight()
    assert 2 == len(model.fleet.released)


async def test_a_prefill_ends_if_the_decode_worker_refuses() -> None:
    prefill = Hangs()
    model = divided(prefill, decode=(Answers(400, b'{"error":{"message":"wrong"}}'),))
    await Trial(model).run()
    async with asyncio.timeout(60):
        while model.in_flight()["a"]:
            await asyncio.sleep(0)

    assert {("b", Ending.REFUSED), ("a", Ending.ABORTED)} == set(model.fleet.endings)

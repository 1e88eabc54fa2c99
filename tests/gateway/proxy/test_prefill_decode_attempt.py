"""Attempts at decode workers whose prompt another worker may compute."""

import json

import pytest

from gateway.protocol.errors import NoWorker, ReplyBroken
from tests.fakes.backends import Answers, Fake, ScriptedReply
from tests.gateway.proxy.kv_transfer.examples import FETCHED, PREFILLED, DividedModel, Trial

pytestmark = pytest.mark.interpreted


async def test_without_prefill_workers_the_decode_worker_computes_the_prompt() -> None:
    decode = Answers(200, FETCHED)
    model = DividedModel(Answers(200, PREFILLED), decode=(decode,))
    model.fleet.set_up(next(iter(model.fleet)).id, up=False)
    trial = Trial(model)
    await trial.run()

    assert ([None], "here") == (
        [json.loads(call.body).get("kv_transfer_params") for call in decode.calls],
        trial.exchange.prefill,
    )


class Draining(Fake):
    """A prefill worker that fails after the decode worker has begun to drain."""

    drains: DividedModel

    async def _reply(self) -> ScriptedReply:
        *_, decode = self.drains.fleet
        self.drains.fleet.set_draining(decode.id, draining=True)
        raise ReplyBroken("it broke off")


async def test_a_draining_decode_worker_computes_no_prompt() -> None:
    """It was to fetch the prompt, began to drain, and would have to compute the prompt instead."""
    draining = DividedModel(Draining(), decode=(Answers(200, FETCHED),))
    prefill = draining.model.workers[draining.fleet.worker(next(iter(draining.fleet)).id).id]
    assert isinstance(prefill, Draining)
    prefill.drains = draining
    with pytest.raises(NoWorker):
        await Trial(draining).run()

    assert {"a": 0, "b": 0} == draining.in_flight()

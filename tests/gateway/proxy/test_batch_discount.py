"""The price and the ledger entries of lines of batches."""

import pytest

from gateway.app.tenancy import Tenancy
from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.price import Price
from tests.fakes.backends import Answers, Refuses
from tests.gateway.asgi import Caller
from tests.gateway.examples import CHAT, WHOLE, a_model
from tests.gateway.proxy.stage import Stage
from tests.gateway.tenancy_examples import AUTHORIZATION, a_team, a_tenancy, at_work, booked

pytestmark = pytest.mark.interpreted

PRICE = Price.per_million(input_usd=1, cached_input_usd=None, output_usd=2)
LINE = (b"authorization", b"Bearer of-a-batch")


def lend(tenancy: Tenancy) -> None:
    """Let requests with the secret of `LINE` be lines of batches of the key ``ci``."""
    own = tenancy.directory.caller("ci")
    assert own is not None
    tenancy.access.lend("of-a-batch", own.for_batch())


async def test_a_line_costs_less_than_a_request() -> None:
    """The ledger has the price with the discount, for the same tokens."""
    async with at_work(a_tenancy(a_team())) as tenancy:
        lend(tenancy)
        stage = Stage(a_model(Answers(200, WHOLE), price=PRICE, batch_discount=0.5), tenancy=tenancy)
        for key in (AUTHORIZATION, LINE):
            assert 200 == (await stage.ask(CHAT, headers=[key])).status
        records = await booked(tenancy, 2)

    assert [(7, 2, 11e-6), (7, 2, 5.5e-6)] == [(r.prompt_tokens, r.completion_tokens, r.cost_usd) for r in records]


async def test_the_sender_of_a_line_writes_its_entry() -> None:
    """The ledger has only the entry of the ordinary request, which cannot hand in a list."""
    async with at_work(a_tenancy(a_team())) as tenancy:
        lend(tenancy)
        stage = Stage(a_model(Answers(200, WHOLE), price=PRICE), tenancy=tenancy)
        entries: list[Entry] = []
        for key in (LINE, AUTHORIZATION):
            caller = Caller(CHAT, headers=[key, (b"x-request-id", key[1][-5:])])
            caller.scope["entries"] = entries
            await caller.call(stage.proxy)
            assert 200 == caller.status
        records = await booked(tenancy, 1)

    assert ["batch"] == [each.request_id for each in entries]
    assert [(7, 2, 11e-6)] == [
        (each.record.prompt_tokens, each.record.completion_tokens, each.record.cost_usd) for each in entries
    ]
    assert [AUTHORIZATION[1][-5:].decode()] == [each.request_id for each in records]


async def test_a_line_that_a_fallback_answers_has_no_discount() -> None:
    """The provider of the fallback gives none."""
    fallback = Answers(200, WHOLE)
    fallback.id = "bedrock:x"
    model = a_model(Refuses(), fallback=fallback, price=PRICE, batch_discount=0.5)
    async with at_work(a_tenancy(a_team())) as tenancy:
        lend(tenancy)
        stage = Stage(model, tenancy=tenancy)
        assert 200 == (await stage.ask(CHAT, headers=[LINE])).status
        (record,) = await booked(tenancy, 1)

    assert 11e-6 == record.cost_usd

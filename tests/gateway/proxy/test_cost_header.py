"""The header with the cost of an answer, and the amount in the ledger."""

import pytest

from gateway.app.tenancy import Tenancy
from gateway.tenancy.ledger.price import Price
from tests.fakes.backends import Answers, Fake, Refuses, Streams
from tests.gateway.asgi import Caller
from tests.gateway.examples import CHAT, CHAT_STREAM, DONE, HELLO, USAGE, WHOLE, a_model
from tests.gateway.proxy.stage import Stage
from tests.gateway.tenancy_examples import AUTHORIZATION, a_team, a_tenancy, at_work, booked

HEADER = b"x-warmgate-cost-usd"
PRICE = Price.per_million(input_usd=0.5, cached_input_usd=0.05, output_usd=1.5)
CACHED = WHOLE.replace(b'"completion_tokens":2', b'"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":5}')


def with_header(*teams: dict[str, object]) -> Tenancy:
    return a_tenancy(*teams, server={"cost_header": True})


async def cost_of(worker: Fake, body: bytes = CHAT, *, price: Price | None = PRICE) -> bytes | None:
    caller = await Stage(a_model(worker, price=price), tenancy=with_header()).ask(body)
    assert 200 == caller.status
    return caller.headers.get(HEADER)


@pytest.mark.parametrize(("answer", "cost"), [(WHOLE, b"0.000006500"), (CACHED, b"0.000004250")])
async def test_the_header_has_the_cost_of_the_answer(answer: bytes, cost: bytes) -> None:
    """Seven prompt tokens and two generated ones. Five cached tokens cost a tenth of others."""
    assert cost == await cost_of(Answers(200, answer))


async def test_the_header_is_off_by_default() -> None:
    caller = await Stage(a_model(Answers(200, WHOLE), price=PRICE)).ask(CHAT)

    assert (200, False) == (caller.status, HEADER in caller.headers)


async def test_a_model_without_a_price_has_no_header() -> None:
    assert await cost_of(Answers(200, WHOLE), price=None) is None


async def test_an_answer_without_usage_has_no_header() -> None:
    assert await cost_of(Answers(200, b'{"choices":[]}')) is None


async def test_a_stream_has_no_header() -> None:
    """Its cost is not known before its end."""
    assert await cost_of(Streams(HELLO, USAGE, DONE), CHAT_STREAM) is None


async def test_a_refused_request_has_no_header() -> None:
    stage = Stage(a_model(Answers(400, WHOLE), price=PRICE), tenancy=with_header())
    caller = await stage.ask(CHAT)

    assert (400, False) == (caller.status, HEADER in caller.headers)


@pytest.mark.parametrize(("background", "cost"), [(b"false", b"0.000006500"), (b"true", None)])
async def test_an_answer_in_the_background_has_no_header(background: bytes, cost: bytes | None) -> None:
    """The worker may still generate tokens."""
    answer = b'{"id":"resp_1","usage":{"input_tokens":7,"output_tokens":2,"total_tokens":9}}'
    stage = Stage(a_model(Answers(200, answer), price=PRICE), tenancy=with_header())
    asked = await stage.ask(b'{"model":"tiny","input":"hi","background":%b}' % background, path="/v1/responses")

    assert (200, cost) == (asked.status, asked.headers.get(HEADER))


async def test_the_price_of_the_fallback_counts() -> None:
    """Seven prompt tokens at $3 per million and two generated ones at $15."""
    price = Price.per_million(input_usd=3.0, cached_input_usd=None, output_usd=15.0)
    model = a_model(Refuses(), price=PRICE, fallback=Answers(200, WHOLE), fallback_price=price)
    caller = await Stage(model, tenancy=with_header()).ask(CHAT)

    assert b"0.000051000" == caller.headers[HEADER]


@pytest.mark.parametrize("model", [{"price": PRICE}, {"gpu_hour_usd": 2.5}], ids=["tokens", "gpu hour"])
async def test_the_ledger_has_the_amount_of_the_header(model: dict[str, object]) -> None:
    async with at_work(with_header(a_team())) as tenancy:
        stage = Stage(a_model(Answers(200, CACHED), **model), tenancy=tenancy)  # type: ignore[arg-type]
        caller: Caller = await stage.ask(CHAT, headers=[AUTHORIZATION])
        (record,) = await booked(tenancy, 1)

    assert record.cost_usd > 0.0
    assert b"%.9f" % record.cost_usd == caller.headers[HEADER]

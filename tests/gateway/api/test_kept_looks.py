"""Calls about kept responses as requests."""

from gateway.api.kept_looks import KeptLooks
from gateway.proxy.completed_requests import CompletedRequest, CompletedRequests
from tests.fakes.backends import Answers
from tests.gateway.examples import Clock, a_model
from tests.gateway.tenancy_examples import AUTHORIZATION, a_team, a_tenancy, at_work, booked


class Seen:
    def __init__(self) -> None:
        self.ended: list[CompletedRequest] = []

    def observe(self, completed_requests: list[CompletedRequest]) -> None:
        self.ended += completed_requests


async def test_a_look_is_a_request_without_tokens() -> None:
    """In the ledger of its team, and in the log."""
    async with at_work(a_tenancy(a_team())) as tenancy:
        caller = tenancy.access.caller({b"authorization": AUTHORIZATION[1].decode()}.get, "127.0.0.1", lambda _: None)
        seen = Seen()
        looks = KeptLooks(tenancy.admission, CompletedRequests([seen]), clock=Clock())
        exchange = looks.begin(b"r-1", "/v1/responses/{response_id}", caller)
        await looks.reserve(exchange, caller, a_model(Answers()))
        exchange.status = 200
        looks.end(exchange)
        looks.settle()
        (record,) = await booked(tenancy, 1)

    assert ("blue", "ci", "tiny", 0, 0, 0) == (
        record.team,
        record.key,
        record.model,
        record.prompt_tokens,
        record.completion_tokens,
        record.cost_usd,
    )
    assert [("blue", "ci", 200)] == [
        (each.exchange.team, each.exchange.key, each.exchange.status) for each in seen.ended
    ]


async def test_without_teams_it_is_logged_alone() -> None:
    seen = Seen()
    looks = KeptLooks(a_tenancy().admission, CompletedRequests([seen]), clock=Clock())
    exchange = looks.begin(b"r-1", "/v1/responses/{response_id}", None)
    await looks.reserve(exchange, None, a_model(Answers()))
    looks.end(exchange)
    looks.settle()

    assert [(None, "tiny")] == [(each.exchange.team, each.exchange.model) for each in seen.ended]

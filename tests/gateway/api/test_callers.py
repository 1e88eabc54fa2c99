"""Facts about who asks a route of FastAPI's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI

from gateway.api.callers import AnyCaller
from gateway.app.tenancy import Tenancy
from gateway.protocol.errors import Forbidden, InvalidKey
from tests.gateway.tenancy_examples import SECRET, a_team, a_tenancy, at_work


@asynccontextmanager
async def asking(tenancy: Tenancy, *, peer: str = "127.0.0.1") -> AsyncIterator[httpx.AsyncClient]:
    """A client at *peer* of a route that reports who asks."""
    api = FastAPI()

    @api.get("/who")
    async def who(caller: AnyCaller) -> str | None:
        return None if caller is None else f"{caller.team.name}/{caller.key.id}"

    async with at_work(tenancy):
        api.state.access = tenancy.access
        transport = httpx.ASGITransport(api, client=(peer, 1234))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {SECRET}"},
        {"Authorization": f"bearer  {SECRET}"},
        {"x-api-key": SECRET},
        {"api-key": SECRET},
        {"api-key": SECRET, "x-api-key": SECRET},
    ],
)
async def test_a_key_is_taken_wherever_clients_send_one(headers: dict[str, str]) -> None:
    async with asking(a_tenancy(a_team())) as client:
        assert "blue/ci" == (await client.get("/who", headers=headers)).json()


@pytest.mark.parametrize("headers", [{}, {"authorization": SECRET}, {"x-api-key": "wrong"}, {"cookie": SECRET}])
async def test_without_a_known_key_the_route_is_not_reached(headers: dict[str, str]) -> None:
    async with asking(a_tenancy(a_team())) as client:
        with pytest.raises(InvalidKey):
            await client.get("/who", headers=headers)


async def test_where_there_are_no_teams_it_is_somebody_on_this_machine() -> None:
    async with asking(a_tenancy()) as client:
        assert None is (await client.get("/who")).json()
    async with asking(a_tenancy(), peer="10.0.0.9") as client:
        with pytest.raises(Forbidden):
            await client.get("/who")


async def test_where_a_request_comes_from_is_believed_of_a_trusted_proxy_only() -> None:
    team = a_team(keys=[{"id": "ci", "secret": SECRET, "allowed_cidrs": ["10.1.0.0/16"]}])
    headers = [("api-key", SECRET), ("x-forwarded-for", "8.8.8.8"), ("x-forwarded-for", "10.1.2.3")]
    server = {"trusted_proxies": ["10.9.0.0/16"]}
    async with asking(a_tenancy(team, server=server), peer="10.9.0.1") as client:
        assert "blue/ci" == (await client.get("/who", headers=headers)).json()
        with pytest.raises(Forbidden):
            await client.get("/who", headers=[*headers, ("x-forwarded-for", "8.8.8.8")])
    async with asking(a_tenancy(team, server=server), peer="8.8.4.4") as client:
        with pytest.raises(Forbidden):
            await client.get("/who", headers=headers)

"""`/v1/models`, from the registry."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI

from cache_index import WorkerId
from gateway.api.models import router
from gateway.app.tenancy import Tenancy
from gateway.protocol.errors import InvalidKey, UnknownModel
from tests.fakes.backends import Refuses
from tests.gateway.examples import a_model, the_models
from tests.gateway.tenancy_examples import SECRET, a_team, a_tenancy


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """Asks without a key, where there are no teams."""
    async with serving(a_tenancy()) as client:
        yield client


@asynccontextmanager
async def serving(tenancy: Tenancy) -> AsyncIterator[httpx.AsyncClient]:
    """Two models, one with aliases and a worker that is down, one with a slash in its name."""
    await tenancy.begin()
    tiny = a_model(Refuses(), name="tiny")
    tiny.fleet.set_up(WorkerId("a"), up=False)
    api = FastAPI()
    api.include_router(router)
    api.state.access = tenancy.access
    api.state.started_at = 1_800_000_000
    api.state.models = the_models(tiny, a_model(name="org/big"), aliases={"tiny": ["gpt-4o", "gpt-4*"]})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://localhost") as client:
        yield client
    await tenancy.aclose()


def card(model_id: str) -> dict[str, object]:
    return {"id": model_id, "object": "model", "created": 1_800_000_000, "owned_by": "warmgate"}


async def test_every_name_that_can_be_asked_for_is_listed(client: httpx.AsyncClient) -> None:
    """Names and exact aliases, in their order; patterns are no names. A worker that is down changes nothing."""
    response = await client.get("/v1/models")

    assert 200 == response.status_code
    assert {"object": "list", "data": [card("tiny"), card("gpt-4o"), card("org/big")]} == response.json()


@pytest.mark.parametrize("model_id", ["tiny", "gpt-4o", "org/big", "org%2Fbig"])
async def test_one_model_is_reported_by_its_name(client: httpx.AsyncClient, model_id: str) -> None:
    """Also if the name has a slash in it, escaped or not."""
    assert card(model_id.replace("%2F", "/")) == (await client.get(f"/v1/models/{model_id}")).json()


@pytest.mark.parametrize("model_id", ["gpt-4", "gpt-4*", "gpt-4-turbo", "Tiny", "big", ""])
async def test_another_name_is_unknown(client: httpx.AsyncClient, model_id: str) -> None:
    """Not even one that a pattern would serve: it is not a model of its own."""
    with pytest.raises(UnknownModel, match="does not exist or is not served here"):
        await client.get(f"/v1/models/{model_id}")


@pytest.mark.parametrize(
    ("models", "expected"),
    [(None, ["tiny", "gpt-4o", "org/big"]), (["gpt-4o"], ["gpt-4o"]), (["org/*"], ["org/big"]), ([], [])],
)
async def test_a_key_sees_what_it_may_use(models: list[str] | None, expected: list[str]) -> None:
    async with serving(a_tenancy(a_team(models=models))) as client:
        listed = await client.get("/v1/models", headers={"authorization": f"Bearer {SECRET}"})

    assert expected == [model["id"] for model in listed.json()["data"]]


async def test_what_a_key_may_not_use_is_not_there() -> None:
    async with serving(a_tenancy(a_team(models=["tiny"]))) as client:
        with pytest.raises(UnknownModel):
            await client.get("/v1/models/org/big", headers={"authorization": f"Bearer {SECRET}"})


async def test_without_a_key_nothing_is_listed_where_there_are_teams() -> None:
    async with serving(a_tenancy(a_team())) as client:
        with pytest.raises(InvalidKey):
            await client.get("/v1/models")

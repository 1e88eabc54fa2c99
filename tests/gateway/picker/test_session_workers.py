"""Headers that decide about the worker of a request; tests/gateway/picker/test_session_header.py has what follows."""

from typing import Any

import pytest

from cache_index import WorkerId
from gateway.models.model import Model
from gateway.models.registry import Models
from gateway.picker.destinations import Destinations
from gateway.picker.session_workers import SessionWorkers
from routing.strategies.session import weight
from tests.gateway.examples import Clock, a_model, the_models
from tests.gateway.picker.envoy import At


def a_session_model(name: str = "tiny", **how: Any) -> Model:
    return a_model(At("10.0.0.1:80"), At("10.0.0.2:80"), name=name, **{"strategy_name": "session", **how})


def workers_of(models: Models) -> SessionWorkers:
    return SessionWorkers(models, Destinations(Clock()), max_fallbacks=0, clock=Clock())


async def session_in(models: Models, team: str = "", **headers: str) -> str | None:
    """Return the session that decides for a request with *headers*, or None."""
    found = {name.replace("_", "-"): value for name, value in headers.items()}
    choice = await workers_of(models).choose(lambda name: found.get(name.decode()), team, None)
    return None if choice is None else choice.session


async def test_a_session_header_decides_for_the_only_model() -> None:
    """Sessions of teams are separate, as in the strategy session."""
    models = the_models(a_session_model())

    assert ("one", "blue\0one", None) == (
        await session_in(models, x_session_id="one"),
        await session_in(models, "blue", x_session_id="one"),
        await session_in(models),
    )


async def test_a_header_decides_between_models() -> None:
    models = the_models(a_session_model(), a_session_model("other", strategy_name="prefix_aware"))

    assert (None, "one", None, None) == (
        await session_in(models, x_session_id="one"),
        await session_in(models, x_session_id="one", x_gateway_model_name="tiny"),
        await session_in(models, x_session_id="one", x_gateway_model_name="other"),
        await session_in(models, x_session_id="one", x_gateway_model_name="unknown"),
    )


@pytest.mark.parametrize("session", ["one", "two", "three", "four"])
async def test_the_worker_is_that_of_the_strategy(session: str) -> None:
    choice = await workers_of(the_models(a_session_model())).choose({b"x-session-id": session}.get, "", None)
    first, second = (weight(session, WorkerId(worker)) for worker in "ab")

    assert choice is not None
    assert ["10.0.0.1:80" if first > second else "10.0.0.2:80"] == choice.endpoints

"""The workers as an operator sees them, and draining."""

from collections.abc import Callable

import pytest

from cache_index import WorkerId
from gateway.api.admin_v1.worker_states import drain, states_of, undrain, worker_states
from gateway.app.mapping.workers import model_workers
from gateway.models.registry import Models
from gateway.protocol.errors import UnknownModel, UnknownWorker
from gateway.settings import build
from gateway.workers.draining import Draining
from tests.fakes.backends import Answers
from tests.gateway.examples import a_draining, a_model, the_models
from tests.routing.examples import a_request, book

A, B = WorkerId("a"), WorkerId("b")


@pytest.fixture
def models() -> Models:
    return the_models(
        a_model(Answers(), Answers(), name="tiny"), a_model(Answers(), name="big"), aliases={"big": ["b"]}
    )


@pytest.fixture
def draining(models: Models) -> Draining:
    return a_draining(models)


def test_a_worker_that_serves_two_models_has_two_cards(models: Models, draining: Draining) -> None:
    assert [("tiny", "a"), ("tiny", "b"), ("big", "a")] == [
        (card["model"], card["worker"]) for card in worker_states(models, draining)
    ]
    assert [("big", "a")] == [(card["model"], card["worker"]) for card in states_of(models.find("big"), draining)]


def test_a_card_reports_the_pool_of_its_worker(models: Models, draining: Draining) -> None:
    models.find("tiny").fleet.members.set_tiers({B: 1})

    assert [0, 1] == [card["tier"] for card in states_of(models.find("tiny"), draining)]


def test_draining_reports_how_the_worker_stands_afterwards(models: Models, draining: Draining) -> None:
    assert [("tiny", "drained"), ("big", "drained")] == [
        (card["model"], card["state"]) for card in drain(models, draining, "a", None)
    ]
    assert [("big", "up")] == [(card["model"], card["state"]) for card in undrain(models, draining, "a", "big")]
    assert ["drained", "up", "up"] == [card["state"] for card in worker_states(models, draining)]


@pytest.mark.parametrize(("after_s", "reported_s"), [(7.5, 7.5), (0.0, 0.0), (None, None)])
def test_a_card_reports_who_wants_it_and_when_streams_are_handed_over(
    models: Models, draining: Draining, after_s: float | None, reported_s: float | None
) -> None:
    book(models.find("tiny").fleet, a_request(), 0.0, A)
    first, second = drain(models, draining, "a", None), drain(models, draining, "b", None, hand_over_after_s=after_s)

    assert [(["operator"], 30.0)] * 2 == [(card["draining_by"], card["hand_over_in_s"]) for card in first]
    assert [(["operator"], reported_s)] == [(card["draining_by"], card["hand_over_in_s"]) for card in second]


def test_who_drains_because_the_settings_say_so_stays_so(models: Models, draining: Draining) -> None:
    """Whatever an operator takes back; the card says why."""
    workers = [{"id": "a", "url": "http://a", "draining": True}, {"id": "b", "url": "http://b"}]
    draining.declare(model_workers(build({"models": [{"name": "tiny", "workers": workers}]}, {}).models))
    drained = drain(models, draining, "a", "tiny")
    undrained = undrain(models, draining, "a", "tiny")

    assert [(True, ["operator", "settings"])] == [(card["draining"], card["draining_by"]) for card in drained]
    assert [(True, ["settings"])] == [(card["draining"], card["draining_by"]) for card in undrained]


@pytest.mark.parametrize(
    ("worker", "model", "error"),
    [("z", None, UnknownWorker), ("b", "big", UnknownWorker), ("a", "x", UnknownModel), ("a", "b", UnknownModel)],
)
@pytest.mark.parametrize("action", [drain, undrain])
def test_who_is_not_there_is_not_drained(
    models: Models,
    draining: Draining,
    action: Callable[..., object],
    worker: str,
    model: str | None,
    error: type[Exception],
) -> None:
    """A name under which clients ask is not enough."""
    with pytest.raises(error):
        action(models, draining, worker, model)

    assert {"up"} == {card["state"] for card in worker_states(models, draining)}

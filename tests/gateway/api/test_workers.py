"""The workers as an operator sees them, and draining."""

import pytest

from gateway.api.workers import cards_of, set_draining, worker_cards
from gateway.errors import UnknownModel, UnknownWorker
from gateway.models import Models
from tests.fakes.backends import Answers
from tests.gateway.examples import a_model, the_models


@pytest.fixture
def models() -> Models:
    return the_models(
        a_model(Answers(), Answers(), name="tiny"), a_model(Answers(), name="big"), aliases={"big": ["b"]}
    )


def test_a_worker_that_serves_two_models_has_two_cards(models: Models) -> None:
    assert [("tiny", "a"), ("tiny", "b"), ("big", "a")] == [
        (card["model"], card["worker"]) for card in worker_cards(models)
    ]
    assert [("big", "a")] == [(card["model"], card["worker"]) for card in cards_of(models.find("big"))]


def test_draining_tells_how_the_worker_stands_afterwards(models: Models) -> None:
    assert [("tiny", "drained"), ("big", "drained")] == [
        (card["model"], card["state"]) for card in set_draining(models, "a", None, draining=True)
    ]
    assert [("big", "up")] == [
        (card["model"], card["state"]) for card in set_draining(models, "a", "big", draining=False)
    ]
    assert ["drained", "up", "up"] == [card["state"] for card in worker_cards(models)]


@pytest.mark.parametrize(
    ("worker", "model", "error"),
    [("z", None, UnknownWorker), ("b", "big", UnknownWorker), ("a", "x", UnknownModel), ("a", "b", UnknownModel)],
)
def test_who_is_not_there_is_not_drained(
    models: Models, worker: str, model: str | None, error: type[Exception]
) -> None:
    """A name under which clients ask is not enough."""
    with pytest.raises(error):
        set_draining(models, worker, model, draining=True)

    assert {"up"} == {card["state"] for card in worker_cards(models)}

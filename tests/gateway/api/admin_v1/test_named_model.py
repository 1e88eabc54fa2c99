import pytest

from gateway.api.admin_v1.named_model import named_model, workers_of
from gateway.api.admin_v1.paging import PageQuery
from gateway.models.registry import Models
from gateway.protocol.errors import UnknownModel
from tests.fakes.backends import Answers
from tests.gateway.examples import a_model, the_models


def test_the_first_model_is_meant_if_none_is_named() -> None:
    models = the_models(a_model(Answers(), name="tiny"), a_model(Answers(), name="big"))

    assert ["tiny", "big"] == [named_model(models, name).name for name in (None, "big")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("huge", "The model 'huge' is not configured; give its name, not an alias"),
        (None, "The model is not configured; give its name, not an alias"),
    ],
)
def test_an_unknown_model_is_an_error(name: str | None, text: str) -> None:
    with pytest.raises(UnknownModel, match=text):
        named_model(Models(), name)


def test_workers_come_in_pages() -> None:
    """a, b and c, two at a time."""
    model = a_model(Answers(), Answers(), Answers())

    assert (["a", "b"], "b") == workers_of(model, PageQuery(limit=2))
    assert (["c"], None) == workers_of(model, PageQuery(limit=2, after="b"))

"""Adapters from settings."""

from typing import Any

from gateway.adapters.adapter import Adapter
from gateway.adapters.assembly import patience_of, subject_of
from gateway.adapters.shelf import Patience
from gateway.settings import AdaptersSettings, ModelSettings
from tests.routing.examples import a_fleet


def settings(**fields: Any) -> ModelSettings:
    workers = [{"url": "http://a:1/", "id": "a"}, {"url": "http://b:1"}]
    return ModelSettings.model_validate({"name": "poems", "workers": workers, **fields})


def test_a_model_of_its_own_is_no_adapter() -> None:
    assert None is subject_of(settings(), a_fleet())


def test_the_short_form_is_an_adapter_that_is_not_loaded() -> None:
    subject = subject_of(settings(upstream_model="poet", adapter_of="tiny"), a_fleet())

    assert subject is not None
    assert Adapter("poet", "tiny") == subject.adapter
    assert ("poems", {"a": "http://a:1", "worker-e6e6e25d": "http://b:1"}) == (subject.model, subject.addresses)


def test_the_long_form_says_how_it_is_loaded() -> None:
    """Its name may be another than what requests say, as with SGLang."""
    told = {"of": "tiny", "name": "poet", "path": "/poet", "load_on_demand": True, "most_per_worker": 3}
    subject = subject_of(settings(upstream_model="tiny:poet", adapter=told), a_fleet())

    assert subject is not None
    assert Adapter("poet", "tiny", "/poet", load_on_demand=True, most_per_worker=3) == subject.adapter


def test_patience_as_it_is_told() -> None:
    told = AdaptersSettings(load_s=3, load_timeout_s=4, retry_s=5)

    assert Patience(load_s=3.0, load_timeout_s=4.0, retry_s=5.0) == patience_of(told)

"""Settings for pulls, and contradictions with other settings of a model."""

from typing import Any

import pytest

from tests.gateway.settings.examples import parsed, sentences, with_model

A = {"url": "http://a:8000"}


def test_a_model_does_not_pull_by_default() -> None:
    assert parsed(with_model(workers=[A])).models[0].pull is None


def test_pulls_have_a_port() -> None:
    """A worker can have a port of its own."""
    workers = [A, {"url": "http://b:8000", "pull_port": 5711}]
    model = parsed(with_model(workers=workers, strategy="kv_aware", pull={})).models[0]

    assert model.pull is not None
    assert (5710, None, 500) == (model.pull.port, model.pull.host_tokens, model.pull.after_requests)
    assert [None, 5711] == [worker.pull_port for worker in model.workers]


def test_a_header_that_chooses_the_strategy_is_enough() -> None:
    assert parsed(with_model(workers=[A], strategy_header=True, pull={})).models[0].pull is not None


@pytest.mark.parametrize(
    ("model", "reported"),
    [
        (
            {"workers": [A], "pull": {}},
            "models[0].pull needs strategy kv_aware, because only KV events show which worker holds a block in host "
            "memory.",
        ),
        (
            {"workers": [{**A, "pull_port": 5711}]},
            "models[0].workers[0].pull_port has no effect without the pull settings of the model.",
        ),
        (
            {"workers": [{**A, "dynamo": {}}], "strategy": "kv_aware", "pull": {}},
            "models[0].workers[0].dynamo cannot be combined with pull. A Dynamo frontend does not forward the field "
            "kv_transfer_params.",
        ),
    ],
)
def test_contradictions_are_refused(model: dict[str, Any], reported: str) -> None:
    assert [reported] == sentences(with_model(**model))


def test_prefill_workers_and_pulls_exclude_each_other() -> None:
    workers = [{**A, "role": "prefill"}, {"url": "http://b:8000", "role": "decode"}]
    model = with_model(workers=workers, strategy="kv_aware", pull={}, disaggregation={"flow": "nixl"})

    [sentence] = sentences(model)
    assert "models[0].pull cannot be combined with disaggregation" in sentence

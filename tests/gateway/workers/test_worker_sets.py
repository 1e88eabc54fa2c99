"""Workers that are configured, and those that were found beside them."""

import pytest

from gateway.workers.worker_sets import with_found
from gateway.workers.worker_spec import WorkersError, WorkerSpec
from tests.gateway.settings.examples import with_model, with_workers

TWO = "models: [{name: x, workers: [{url: 'http://a:1', id: a}]}, {name: y, workers_file: f}]"


def test_those_that_were_found_come_behind_those_that_are_listed() -> None:
    """Each model gets its own; one for which nothing was found has what it lists."""
    found = {
        "x": [WorkerSpec("http://b:1", "b")],
        "y": [WorkerSpec("http://c:1", "c")],
        "z": [WorkerSpec("http://d:1", "d")],
    }
    whole = with_found(with_workers(TWO), found)

    assert [["http://a:1", "http://b:1"], ["http://c:1"]] == [
        [worker.url for worker in model.workers] for model in whole
    ]
    assert with_workers(TWO) == with_found(with_workers(TWO), {})


def test_what_was_found_elsewhere_is_not_said_to_stand_in_a_file() -> None:
    """The sentence is for anyone who looks for it."""
    models = with_workers("models: [{name: x, workers: [{url: 'http://a:1'}], service: {name: s}}]")
    with pytest.raises(WorkersError, match=r"^models\[0\]\.found\[0\]\.url is 'http://a:1'"):
        with_found(models, {"x": [WorkerSpec("http://a:1", "a")]})


@pytest.mark.parametrize(
    ("model", "worker", "fault"),
    [
        (
            "x",
            WorkerSpec("http://a:1", "b"),
            "models[0].workers_file[0].url is 'http://a:1', which is already used by models[0].workers[0].url.",
        ),
        (
            "x",
            WorkerSpec("http://b:1", "a"),
            "models[0].workers_file[0].id is 'a', which is already used by models[0].workers[0].id.",
        ),
        (
            "y",
            WorkerSpec("http://b:1", "a"),
            "models[1].workers_file[0].id is 'a', but this id is already used for another url "
            "in models[0].workers[0].url.",
        ),
    ],
)
def test_what_was_found_may_not_contradict_what_is_listed(model: str, worker: WorkerSpec, fault: str) -> None:
    """The same rules hold across the file and the settings."""
    with pytest.raises(WorkersError) as raised:
        with_found(with_workers(TWO), {model: [worker]})

    assert [fault] == raised.value.sentences


def test_who_is_found_for_a_model_that_is_not_divided_is_refused() -> None:
    """Its half would pass for an answer."""
    models = with_workers(with_model(workers=[{"url": "http://c:8000"}], pods={"selector": "app=vllm"}))
    with pytest.raises(WorkersError) as refused:
        with_found(models, {"tiny": [WorkerSpec("http://d:8000", "d", role="decode")]})

    assert (
        "models[0].found[0].role is 'decode', but the model has no disaggregation. Configure it, or remove the role.",
    ) == tuple(refused.value.sentences)

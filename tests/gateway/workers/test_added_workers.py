"""Added workers that are in use, beside all others."""

import random

import pytest

from gateway.app.mapping.workers import model_workers, sources_of
from gateway.protocol.errors import Conflict, GatewayError, UnknownModel, UnknownWorker
from gateway.settings import build
from gateway.tenancy.teams.added_worker import AddedWorker
from gateway.workers.added_workers import KnownWorkers, admission, check_addition, not_removable
from gateway.workers.worker_sets import with_found
from gateway.workers.worker_spec import WorkerSpec

SETTINGS = build(
    {
        "models": [
            {"name": "tiny", "workers": [{"url": "http://a:1", "id": "a"}], "workers_file": "workers.yaml"},
            {"name": "big", "workers": [{"url": "http://c:1", "id": "c", "ranks": 2}]},
        ]
    },
    {},
)
(FILE,) = sources_of(SETTINGS.models[0])
KNOWN = KnownWorkers(model_workers(SETTINGS.models), {FILE: (WorkerSpec(url="http://b:1", id="b"),)})


def by_name(*added: AddedWorker) -> dict[str, AddedWorker]:
    return {worker.name: worker for worker in added}


def in_use(*added: AddedWorker) -> dict[str, list[str]]:
    return {model.name: [w.id for w in model.workers] for model in admission(KNOWN, added).models}


def states(*added: AddedWorker) -> dict[str, str]:
    return {name: left.state for name, left in admission(KNOWN, added).left_out.items()}


def test_added_workers_are_behind_those_that_are_listed_and_found() -> None:
    """The earlier one first; one address may serve two models."""
    late, early = AddedWorker("tiny", "http://e:1", "e", 9.0), AddedWorker("tiny", "http://d:1", "d", 8.0)
    other = AddedWorker("big", "http://a:1", "a")

    assert {"tiny": ["a", "b", "d", "e"], "big": ["c", "a"]} == in_use(late, early, other)
    assert {} == states(late, early, other)


@pytest.mark.parametrize(
    ("added", "state"),
    [
        (AddedWorker("gone", "http://d:1", "d"), "model_not_configured"),
        (AddedWorker("tiny", "http://a:1", "d"), "listed_elsewhere"),
        (AddedWorker("tiny", "HTTP://B:1", "d"), "listed_elsewhere"),
        (AddedWorker("tiny", "http://d:1", "a"), "id_taken"),
        (AddedWorker("tiny", "http://d:1", "c"), "id_taken"),
        (AddedWorker("tiny", "http://d:1/v1", "d"), "not_valid"),
        (AddedWorker("tiny", "http://d:99999", "d"), "not_valid"),
        (AddedWorker("tiny", "http://d:1", "c#0"), "not_valid"),
    ],
)
def test_one_that_cannot_be_in_use_is_left_out_alone(added: AddedWorker, state: str) -> None:
    good = [AddedWorker("tiny", f"http://g{n}:1", f"g{n}", created_at=float(n)) for n in range(5)]

    assert {added.name: state} == states(*good, added)
    assert {"tiny": ["a", "b", "g0", "g1", "g2", "g3", "g4"], "big": ["c"]} == in_use(*good, added)


def test_those_in_use_keep_to_the_rules_of_the_settings() -> None:
    """Random workers of few ids and addresses: `with_found` would say if two contradicted each other."""
    rng = random.Random(3)
    for _ in range(200):
        added = by_name(
            *(
                AddedWorker(rng.choice(["tiny", "big"]), f"http://{rng.choice('abcdefg')}:1", rng.choice("abcdefg"), n)
                for n in range(8)
            )
        )
        outcome = admission(KNOWN, added.values())
        placed = sum(len(model.workers) for model in outcome.models)

        assert outcome.models == with_found(outcome.models, {})
        assert 3 + len(added) == len(outcome.left_out) + placed


def test_of_two_with_one_id_the_earlier_one_is_in_use() -> None:
    """An id stands for one address in all models."""
    early, late = AddedWorker("tiny", "http://d:1", "d", 1.0), AddedWorker("big", "http://e:1", "d", 2.0)

    assert {late.name: "id_taken"} == states(late, early)


@pytest.mark.parametrize(
    ("worker", "error", "text"),
    [
        (AddedWorker("x", "http://d:1", "d"), UnknownModel, "The model 'x' is not configured"),
        (AddedWorker("tiny", "http://a:1", "d"), Conflict, r"at this address, which is listed in the configuration"),
        (
            AddedWorker("tiny", "http://b:1", "d"),
            Conflict,
            r"at this address, which was found by models\[\]\.workers_file",
        ),
        (
            AddedWorker("tiny", "http://E:1", "d"),
            Conflict,
            "already has the added worker 'e' at that address",
        ),
        (
            AddedWorker("big", "http://d:1", "b"),
            Conflict,
            "cannot be added: the id 'b' is already used by another worker",
        ),
        (
            AddedWorker("big", "http://d:1", "e"),
            Conflict,
            "cannot be added: the id 'e' is already used by another worker",
        ),
    ],
)
def test_one_that_could_not_be_in_use_is_not_added(worker: AddedWorker, error: type[GatewayError], text: str) -> None:
    with pytest.raises(error, match=text):
        check_addition(KNOWN, by_name(AddedWorker("tiny", "http://e:1", "e")), worker)


def test_one_that_could_be_in_use_is() -> None:
    """An entry that does no good is in no one's way."""
    useless = by_name(AddedWorker("gone", "http://e:1", "e"), AddedWorker("tiny", "http://f:1", "a"))

    check_addition(KNOWN, useless, AddedWorker("tiny", "http://d:1", "d"))


@pytest.mark.parametrize(
    ("model", "worker", "error", "text"),
    [
        (
            "tiny",
            "a",
            Conflict,
            r"is listed in the configuration \(models\[\]\.workers\): it can be removed only there",
        ),
        ("tiny", "b", Conflict, r"was found by models\[\]\.workers_file: it can be removed only there"),
        ("big", "c#1", Conflict, "is listed in the configuration"),
        ("big", "a", UnknownWorker, "There is no worker 'a' of the model 'big'"),
    ],
)
def test_anyone_who_removes_another_one_is_reported_where_it_comes_from(
    model: str, worker: str, error: type[GatewayError], text: str
) -> None:
    refusal = not_removable(KNOWN, model, worker)

    assert isinstance(refusal, error)
    with pytest.raises(error, match=text):
        raise refusal

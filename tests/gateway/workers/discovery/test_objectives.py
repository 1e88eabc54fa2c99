"""InferenceObjectives that apply to a pool."""

from typing import Any

import msgspec
import pytest

from gateway.workers.discovery.objectives import priorities_in
from gateway.workers.kubernetes.objects import InferenceObjective, InferencePool
from tests.kubernetes_api import an_objective

POOL = msgspec.convert({"metadata": {"name": "llama", "labels": {"size": "70b", "zone": "a"}}}, InferencePool)


def priorities(*objectives: dict[str, Any], pool: InferencePool = POOL) -> dict[str, int]:
    return priorities_in((msgspec.convert(each, InferenceObjective) for each in objectives), pool)


def test_references_name_the_pool() -> None:
    found = priorities(
        an_objective("one", 10, poolRef={"name": "llama"}),
        an_objective("other", 10, poolRef={"name": "tiny"}),
        an_objective("several", -5, poolRefs=[{"name": "tiny"}, {"name": "llama"}]),
        an_objective("without", None, poolRef={"group": "inference.networking.k8s.io", "name": "llama"}),
        an_objective("nothing", 7),
    )

    assert {"one": 10, "several": -5, "without": 0} == found


@pytest.mark.parametrize(
    ("selector", "applies"),
    [
        ({}, True),
        ({"matchLabels": None, "matchExpressions": None}, True),
        ({"matchLabels": {"size": "70b"}}, True),
        ({"matchLabels": {"size": "8b"}}, False),
        ({"matchExpressions": [{"key": "size", "operator": "In", "values": ["8b", "70b"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "Later"}]}, False),
        ({"matchLabels": {"size": "70b"}, "matchExpressions": [{"key": "team", "operator": "Exists"}]}, False),
    ],
)
def test_a_selector_matches_the_labels_of_the_pool(selector: dict[str, Any], applies: bool) -> None:
    assert ({"one": 1} if applies else {}) == priorities(an_objective("one", 1, poolSelector=selector))


def test_a_pool_without_labels_meets_an_empty_selector() -> None:
    bare = msgspec.convert({"metadata": {"name": "llama"}}, InferencePool)

    assert {"one": 1} == priorities(an_objective("one", 1, poolSelector={}), pool=bare)

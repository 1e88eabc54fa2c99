"""Names in a header stand for priorities."""

import pytest

from gateway.models.objectives import Objectives
from gateway.protocol.headers import HeaderLookup
from routing.request import BATCH, HIGH, LOW, NORMAL

PRESENT, FORMER = b"x-llm-d-inference-objective", b"x-gateway-inference-objective"
PRIORITIES = {"urgent": 100, "usual": 0, "idle": -10}


def naming(**said: str) -> HeaderLookup:
    """Return the headers of a request, in which *present* and *former* are the two names of the header."""
    names = {PRESENT: said.get("present"), FORMER: said.get("former")}
    return names.get


@pytest.mark.parametrize(
    ("header", "own", "open_level", "level_with_a_key"),
    [
        (naming(), NORMAL, NORMAL, NORMAL),
        (naming(present="urgent"), NORMAL, HIGH, NORMAL),
        (naming(present="urgent"), HIGH, HIGH, HIGH),
        (naming(present="usual"), HIGH, NORMAL, NORMAL),
        (naming(present="idle"), NORMAL, LOW, LOW),
        (naming(present="idle"), BATCH, LOW, BATCH),
        (naming(former="idle"), NORMAL, LOW, LOW),
        (naming(present="urgent", former="idle"), NORMAL, HIGH, NORMAL),
        (naming(present="unknown"), HIGH, HIGH, HIGH),
    ],
)
def test_an_objective_sets_the_priority(header: HeaderLookup, own: int, open_level: int, level_with_a_key: int) -> None:
    """With a key, it only lowers the priority. Unknown names do not matter."""
    objectives = Objectives().of("tiny")
    objectives.priorities = PRIORITIES

    assert (open_level, level_with_a_key) == (
        objectives.level(header, own, may_raise=True),
        objectives.level(header, own, may_raise=False),
    )


def test_each_model_has_its_own_objectives() -> None:
    objectives = Objectives()
    objectives.of("tiny").priorities = PRIORITIES

    assert objectives.of("tiny").priorities == PRIORITIES
    assert {} == objectives.of("huge").priorities

"""What a model allows of the request fields that control engines."""

import pytest

from gateway.models.engine_field_rules import EngineFieldRules, PriorityOrder
from gateway.protocol.body import parse_chat
from gateway.protocol.errors import InvalidField
from routing.request import HIGH, LOW, NORMAL
from tests.gateway.examples import CHAT

NAMED = parse_chat(CHAT[:-1] + b',"session_id":"s"}')
PRIORITY = parse_chat(CHAT[:-1] + b',"priority":1}')


def test_a_field_is_refused_unless_it_is_allowed() -> None:
    EngineFieldRules(frozenset({"priority"})).check(PRIORITY)
    EngineFieldRules().check(NAMED)
    with pytest.raises(InvalidField, match="'priority' is internal to inference engines"):
        EngineFieldRules(frozenset({"rid"})).check(PRIORITY)


def test_workers_see_the_session_id_of_the_body_only_if_the_model_allows_it() -> None:
    assert EngineFieldRules(frozenset({"rid"})).for_workers(NAMED).hides_session_id
    assert not EngineFieldRules(frozenset({"session_id"})).for_workers(NAMED).hides_session_id
    assert EngineFieldRules(frozenset({"session_id"})).for_workers(PRIORITY) is PRIORITY


@pytest.mark.parametrize(
    ("order", "numbers"), [("none", [None] * 3), ("low_first", [-1, 0, 1]), ("high_first", [1, 0, -1])]
)
def test_engines_serve_high_priority_first(order: PriorityOrder, numbers: list[int | None]) -> None:
    rules = EngineFieldRules(priority_order=order)

    assert numbers == [rules.engine_priority(priority) for priority in (HIGH, NORMAL, LOW)]

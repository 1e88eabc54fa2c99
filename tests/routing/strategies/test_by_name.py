from routing.strategies.by_name import StrategiesByName
from routing.strategies.round_robin import RoundRobin


def test_a_strategy_is_made_when_it_is_first_asked_for() -> None:
    """Each strategy is made once, so its state is kept."""
    made: list[str] = []

    def make(name: str) -> RoundRobin:
        made.append(name)
        return RoundRobin()

    strategies = StrategiesByName("session", make)
    assert ("session", []) == (strategies.default, made)

    one, other = strategies.named("one"), strategies.named("other")
    assert one is not other
    assert one is strategies.named("one")
    assert ["one", "other"] == made

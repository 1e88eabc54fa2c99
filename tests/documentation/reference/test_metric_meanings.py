from documentation.reference.example_gateway import families
from documentation.reference.metric_meanings import MEANINGS


def test_every_meaning_belongs_to_one_metric() -> None:
    """A metric that is removed or renamed takes its meaning with it."""
    names = [name for meanings in MEANINGS.values() for name in meanings]
    exposed = {f"{each.name}_total" if each.type == "counter" else each.name for each in families()}

    assert [] == [name for name in names if name not in exposed]
    assert len(names) == len(set(names))

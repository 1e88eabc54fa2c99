from benchmarks.policies.nothing import Nothing
from tests.benchmarks.policies.examples import an_ask


def test_nothing_is_ever_held() -> None:
    index, ask = Nothing(3), an_ask(1)
    index.sent(0, ask)
    index.stored(0, [1])

    assert [0, 0, 0] == index.hits(ask)

from benchmarks.policies.events import Events
from benchmarks.policies.under_way import UnderWay
from tests.benchmarks.policies.examples import an_ask


def test_blocks_are_in_use_from_sending_to_the_end_of_the_answer() -> None:
    """Three of the first worker; the ask shares two of them, and brings three to the second one."""
    index, first, ask = UnderWay(2, Events(2)), an_ask(1, 2, 3), an_ask(1, 2, 4)

    assert [3, 3] == index.blocks_with(ask)
    index.sent(0, first)
    assert [4, 3] == index.blocks_with(ask)
    index.first_token(0, first)
    assert [4, 3] == index.blocks_with(ask)
    index.finished(0, first)
    assert [3, 3] == index.blocks_with(ask)


def test_what_workers_hold_is_what_the_other_index_says() -> None:
    index, ask = UnderWay(2, Events(2)), an_ask(1, 2)
    index.sent(0, ask)

    assert [0, 0] == index.hits(ask)
    index.stored(1, [1, 2])
    assert [0, 2] == index.hits(ask)
    index.removed(1, [2])
    assert [0, 1] == index.hits(ask)

import gc

from gateway.server.collector import THRESHOLDS, set_up_for_serving


def test_what_was_there_before_is_left_alone_while_serving() -> None:
    """Modules and settings live as long as the process; afterwards all is as it was."""
    before = gc.get_threshold()
    with set_up_for_serving():
        assert THRESHOLDS == gc.get_threshold()
        assert gc.get_freeze_count() > 1000

    assert before == gc.get_threshold()
    assert 0 == gc.get_freeze_count()


def test_cycles_are_still_freed() -> None:
    """A failed request leaves some, through its traceback."""

    class Node:
        freed = 0
        other: "Node"

        def __del__(self) -> None:
            Node.freed += 1

    with set_up_for_serving():
        for _ in range(THRESHOLDS[0]):
            node = Node()
            node.other = node

    assert Node.freed > 0

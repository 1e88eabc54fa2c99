from collections.abc import Sequence

from replay.host_events import HostEvents


class Listener:
    """Keeps what it receives."""

    def __init__(self) -> None:
        self.received: list[tuple[str, int, list[int], float]] = []

    def host_stored(self, worker: int, blocks: Sequence[int], now: float) -> None:
        self.received.append(("stored", worker, list(blocks), now))

    def host_removed(self, worker: int, blocks: Sequence[int], now: float) -> None:
        self.received.append(("removed", worker, list(blocks), now))


def test_every_subscriber_receives_all_events() -> None:
    """From its subscription on."""
    events, first, second = HostEvents(), Listener(), Listener()
    events.stored(0, [1], 0.5)
    events.subscribe(first)
    events.stored(1, [2, 3], 1.0)
    events.subscribe(second)
    events.removed(1, [3], 2.0)

    assert [("stored", 1, [2, 3], 1.0), ("removed", 1, [3], 2.0)] == first.received
    assert [("removed", 1, [3], 2.0)] == second.received

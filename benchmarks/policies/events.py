"""The caches as engines report them, with or without what they are about to compute."""

from collections import Counter
from collections.abc import Sequence

from benchmarks.policies.holdings import Holdings
from replay.policy import Ask


class Events:
    """Blocks that were announced as stored and not as removed; nothing is known of those that are being computed."""

    def __init__(self, workers: int) -> None:
        self._confirmed = Holdings(workers)

    def hits(self, ask: Ask) -> list[int]:
        return self._confirmed.leading(ask.blocks)

    def sent(self, worker: int, ask: Ask) -> None:
        pass

    def first_token(self, worker: int, ask: Ask) -> None:
        pass

    def finished(self, worker: int, ask: Ask) -> None:
        pass

    def stored(self, worker: int, blocks: Sequence[int]) -> None:
        self._confirmed.add(worker, blocks)

    def removed(self, worker: int, blocks: Sequence[int]) -> None:
        self._confirmed.discard(worker, blocks)


class EventsAndInFlight:
    """The same, and the prompts that were sent and have no first token yet.

    A worker computes them before what is sent later, which will find them.
    """

    def __init__(self, workers: int) -> None:
        self._either = Holdings(workers)
        self._confirmed: list[set[int]] = [set() for _ in range(workers)]
        self._in_flight: list[Counter[int]] = [Counter() for _ in range(workers)]

    def hits(self, ask: Ask) -> list[int]:
        return self._either.leading(ask.blocks)

    def sent(self, worker: int, ask: Ask) -> None:
        self._in_flight[worker].update(ask.blocks)
        self._either.add(worker, ask.blocks)

    def first_token(self, worker: int, ask: Ask) -> None:
        in_flight, confirmed = self._in_flight[worker], self._confirmed[worker]
        gone = []
        for block in ask.blocks:
            in_flight[block] -= 1
            if not in_flight[block]:
                del in_flight[block]
                if block not in confirmed:
                    gone.append(block)
        self._either.discard(worker, gone)

    def finished(self, worker: int, ask: Ask) -> None:
        pass

    def stored(self, worker: int, blocks: Sequence[int]) -> None:
        self._confirmed[worker].update(blocks)
        self._either.add(worker, blocks)

    def removed(self, worker: int, blocks: Sequence[int]) -> None:
        self._confirmed[worker].difference_update(blocks)
        in_flight = self._in_flight[worker]
        self._either.discard(worker, [block for block in blocks if block not in in_flight])

"""All prompts ever sent, by worker: the tree of routers that do not follow evictions."""

from collections.abc import Sequence

from benchmarks.policies.holdings import Holdings
from replay.policy import Ask


class SentPrompts:
    """A worker is taken to hold every prompt that it was ever sent, from the moment of sending on.

    SGLang's and SMG's trees are bounded (67 million characters of each worker, model_gateway/src/policies/), which no
    trace here comes near.
    """

    def __init__(self, workers: int) -> None:
        self._sent = Holdings(workers)

    def hits(self, ask: Ask) -> list[int]:
        return self._sent.leading(ask.blocks)

    def sent(self, worker: int, ask: Ask) -> None:
        self._sent.add(worker, ask.blocks)

    def first_token(self, worker: int, ask: Ask) -> None:
        pass

    def finished(self, worker: int, ask: Ask) -> None:
        pass

    def stored(self, worker: int, blocks: Sequence[int]) -> None:
        pass

    def removed(self, worker: int, blocks: Sequence[int]) -> None:
        pass

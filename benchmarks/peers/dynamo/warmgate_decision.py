"""Warmgate's decision in the benchmark: hash the tokens, match the KV events, and rank the workers.

The objects are those that the gateway has, put together as it puts them together. The way of the request to its token
ids is not part of it, as it is not with Dynamo's `select`.
"""

import asyncio
import random
import statistics
from collections.abc import Callable, Sequence
from typing import TypeVar

from benchmarks.peers.dynamo.caches import BLOCK_TOKENS
from benchmarks.peers.dynamo.child import options_of, tell
from benchmarks.peers.dynamo.decision_trial import REPEATS, Decided, Situation, measure, situation_of
from benchmarks.peers.dynamo.stopwatch import timed_us
from benchmarks.peers.dynamo.warmgate_index import MAX_BYTES, MODEL, EventIndex, worker_id
from cache_index import Prefix, RadixTree
from cache_index.confirmed import Confirmed
from cache_index.tokens import TokenIds, pack, scope_of
from routing.candidate import Candidate
from routing.fleet import Fleet
from routing.request import Request
from routing.strategies.prefix_aware import PrefixAware

NOW = 1_000.0
OUTPUT_TOKENS = 256.0
TOKEN_BYTES = 4
TEXT = Prefix(b"")
"""Prompt as text, which is not used if the exact tokens are known."""

T = TypeVar("T")


class Decision:
    """Fleet of trusted idle workers, and a strategy."""

    def __init__(self, situation: Situation) -> None:
        reported = EventIndex()
        self._hasher = reported.hasher
        self._scope = scope_of(MODEL)
        index = RadixTree(max_bytes=MAX_BYTES, default_capacity=1)
        self._fleet = Fleet(index, confirmed=Confirmed(reported.residency), block_bytes=64)
        workers = [worker_id(number) for number in range(situation.workers)]
        self._numbers = {worker: number for number, worker in enumerate(workers)}
        self._fleet.set_workers(workers, NOW)
        for worker in workers:
            self._fleet.set_trusted(worker, trusted=True)
        self._strategy = PrefixAware(random.Random(1))
        for announcement in situation.reported:
            for message in reported.stored([announcement]):
                reported.apply(announcement.worker, message)

    async def from_ids(self, token_ids: list[int]) -> int:
        return self.from_packed(pack(token_ids))

    def from_packed(self, token_ids: TokenIds) -> int:
        best = self.rank(self.request(self.prefix(token_ids), len(token_ids) // TOKEN_BYTES))[0]
        return self._numbers[best.worker]

    def prefix(self, token_ids: TokenIds) -> Prefix:
        return self._hasher.prefix(token_ids, block_size=BLOCK_TOKENS, scope=self._scope)

    def request(self, prefix: Prefix, tokens: int) -> Request:
        return Request(TEXT, 0, float(tokens), OUTPUT_TOKENS, exact=(prefix,))

    def rank(self, request: Request) -> list[Candidate]:
        return self._strategy.rank(request, self.candidates(request))

    def candidates(self, request: Request) -> list[Candidate]:
        return self._fleet.candidates(request, NOW)


def measure_ours(situation: Situation) -> Decided:
    decision = Decision(situation)
    found = asyncio.run(measure(decision.from_ids, situation.prompts))
    packed: dict[str, list[TokenIds]] = {}
    for prompt in situation.prompts:
        packed.setdefault(prompt.kind, []).append(pack(prompt.token_ids))
    found.packed_us = {kind: _median_us(decision.from_packed, ids) for kind, ids in packed.items()}
    all_packed = [each for ids in packed.values() for each in ids]
    prefixes = [decision.prefix(each) for each in all_packed]
    requests = [
        decision.request(prefix, len(each) // TOKEN_BYTES) for prefix, each in zip(prefixes, all_packed, strict=True)
    ]
    found.parts_us = {
        "pack the list": _median_us(pack, [prompt.token_ids for prompt in situation.prompts]),
        "hash": _median_us(decision.prefix, all_packed),
        "match, and candidates of it": _median_us(decision.candidates, requests),
        "match, candidates and rank": _median_us(decision.rank, requests),
    }
    return found


def _median_us(do: Callable[[T], object], arguments: Sequence[T]) -> float:
    return statistics.median(timed_us(do, list(arguments) * REPEATS))


def main() -> None:
    tell(measure_ours(situation_of(options_of(__doc__))))


if __name__ == "__main__":
    main()

"""Dynamo's `RadixTree` under the benchmark. Runs in an environment of its own: the standard library and its wheel.

`apply_event` takes JSON of ``{"event_id", "data", "dp_rank"}`` with ``data`` one of ``{"stored": {"parent_hash",
"blocks": [{"block_hash", "tokens_hash"}]}}`` and ``{"removed": {"block_hashes"}}``, as `dump_tree_as_events` shows it.
It gets the hashes of the tokens ready made; that its own side would have to compute them is not counted.
"""

import itertools
import json
from array import array
from collections.abc import Sequence
from typing import Any

# In an environment of its own, not in that of the checkout.
from dynamo._core import RadixTree, compute_block_hash_for_seq  # type: ignore[import-not-found]

from benchmarks.peers.dynamo.caches import BLOCK_TOKENS, Announcement
from benchmarks.peers.dynamo.child import options_of, tell
from benchmarks.peers.dynamo.index_trial import measure


class Tree:
    """Adapter for Dynamo's index, with the interface of the benchmark."""

    def __init__(self) -> None:
        self._tree = RadixTree()
        self._numbers = itertools.count()

    def stored(self, step: Sequence[Announcement]) -> list[bytes]:
        return [self._event({"stored": _stored(announcement)}) for announcement in step]

    def removed(self, hashes: Sequence[int], *, one_by_one: bool) -> list[bytes]:
        reported = [[value] for value in hashes] if one_by_one else [list(hashes)]
        return [self._event({"removed": {"block_hashes": each}}) for each in reported]

    def apply(self, worker: int, message: bytes) -> None:
        self._tree.apply_event(worker, message)

    def prefix(self, token_ids: list[int]) -> Any:
        return compute_block_hash_for_seq(token_ids, BLOCK_TOKENS)

    def match(self, prefix: Any) -> Any:
        return self._tree.find_matches(prefix).scores

    def hits(self, matched: Any) -> dict[int, int]:
        return {worker: blocks for (worker, _), blocks in matched.items()}

    def _event(self, data: object) -> bytes:
        return json.dumps({"event_id": next(self._numbers), "data": data, "dp_rank": 0}, separators=(",", ":")).encode()


def _stored(announcement: Announcement) -> dict[str, object]:
    tokens = compute_block_hash_for_seq(array("I", announcement.tokens).tolist(), BLOCK_TOKENS)
    blocks = zip(announcement.hashes, tokens, strict=True)
    return {
        "parent_hash": announcement.parent,
        "blocks": [{"block_hash": block, "tokens_hash": local} for block, local in blocks],
    }


def main() -> None:
    tell(measure(Tree(), **vars(options_of(__doc__))))


if __name__ == "__main__":
    main()

"""Warmgate's index of KV events in the benchmark, from vLLM's msgpack to the hits of a prompt."""

from collections.abc import Mapping, Sequence

from benchmarks.peers.dynamo import vllm_events
from benchmarks.peers.dynamo.caches import BLOCK_TOKENS, Announcement
from benchmarks.peers.dynamo.child import options_of, tell
from benchmarks.peers.dynamo.index_trial import measure
from cache_index import Prefix, WorkerId
from cache_index.hit import Hit
from cache_index.residency import Residency
from cache_index.tokens import TokenHasher, pack, scope_of
from gateway.workers.kv_events.decoding import Decoder

MODEL = "tiny"
MAX_BYTES = 2**40
"""Memory limit of the index, which is so high that nothing is evicted."""
KEY = bytes(range(32))
HOST = "http://worker-"


class EventIndex:
    """Index of KV events: a `Residency` with one decoder for the stream of each worker."""

    def __init__(self) -> None:
        self.hasher = TokenHasher(KEY)
        self.residency = Residency(self.hasher, max_bytes=MAX_BYTES)
        self._streams: dict[int, tuple[WorkerId, Decoder]] = {}
        self._scope = scope_of(MODEL)

    def stored(self, step: Sequence[Announcement]) -> list[bytes]:
        return [vllm_events.stored(step)]

    def removed(self, hashes: Sequence[int], *, one_by_one: bool) -> list[bytes]:
        return [vllm_events.removed(hashes, one_by_one=one_by_one)]

    def apply(self, worker: int, message: bytes) -> None:
        stream = self._streams.get(worker)
        if stream is None:
            stream = self._streams[worker] = worker_id(worker), Decoder()
        worker_name, decoder = stream
        for events in decoder.decode(message):
            for event in events:
                self.residency.apply(worker_name, event, model=MODEL)

    def prefix(self, token_ids: list[int]) -> Prefix:
        return self.hasher.prefix(pack(token_ids), block_size=BLOCK_TOKENS, scope=self._scope)

    def match(self, prefix: Prefix) -> Mapping[WorkerId, Hit]:
        return self.residency.match(prefix)

    def hits(self, matched: Mapping[WorkerId, Hit]) -> dict[int, int]:
        return {int(worker.removeprefix(HOST)): hit.blocks for worker, hit in matched.items()}


def worker_id(number: int) -> WorkerId:
    return WorkerId(f"{HOST}{number}")


def main() -> None:
    tell(measure(EventIndex(), **vars(options_of(__doc__))))


if __name__ == "__main__":
    main()

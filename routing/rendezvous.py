"""Deterministic choice among workers of equal cost, so that gateway replicas agree without communication.

A random choice would also spread prompts evenly, but two gateways that see the same new prompt at the same time would
compute it twice. Rendezvous hashing spreads prompts evenly and makes the same choice on every replica. The hash covers
the first block of the prompt that none of the tied workers has cached. Prompts that share only cached blocks go to
different workers, and prompts that share more blocks meet on one worker.
"""

import hashlib
from collections.abc import Sequence

from cache_index import Prefix, WorkerId
from cache_index.prefix import HASH_BYTES
from routing.candidate import Candidate
from routing.request import Request

TIE_S = 0.02
"""Cost difference in seconds that is ignored, because replicas receive each other's events some milliseconds late."""

_BITS_64 = 0xFFFF_FFFF_FFFF_FFFF


class Rendezvous:
    """Deterministic order of workers with equal cost. Costs within *tie_s* seconds of the lowest one are equal."""

    def __init__(self, tie_s: float = TIE_S) -> None:
        self.tie_s = tie_s
        self._seeds: dict[WorkerId, int] = {}

    def order(self, request: Request, tied: Sequence[Candidate]) -> list[Candidate] | None:
        """Return the candidates *tied* in an order that is the same in every process, longest cache hits first.

        Returns None if the prompt has no full block, because replicas then share no hash. The cost is linear in the
        number of candidates.
        """
        most = max([candidate.hit_tokens for candidate in tied])
        block = _parting_block(request, next(candidate for candidate in tied if candidate.hit_tokens == most))
        if block is None:
            return None
        return sorted(tied, key=lambda c: (-c.hit_tokens, self._weight(block, c.worker)))

    def _weight(self, block: int, worker: WorkerId) -> int:
        seed = self._seeds.get(worker)
        if seed is None:
            digest = hashlib.blake2b(worker.encode("utf-8", "surrogatepass"), digest_size=HASH_BYTES).digest()
            seed = self._seeds[worker] = int.from_bytes(digest, "little")
        return _mixed(block ^ seed)


def _parting_block(request: Request, longest: Candidate) -> int | None:
    """Return the hash of the first block that *longest*'s cache hit lacks, or of the last block if it lacks none."""
    if request.exact and longest.source == "reported":
        prefix = request.exact[0]
        held = int(longest.plain_tokens) // prefix.block_tokens
    else:
        prefix, held = request.prefix, longest.hit_blocks
    return _hash_at(prefix, held)


def _hash_at(prefix: Prefix, block: int) -> int | None:
    at = min(block, prefix.blocks - 1) * HASH_BYTES
    return int.from_bytes(prefix.hashes[at : at + HASH_BYTES], "little") if at >= 0 else None


def _mixed(word: int) -> int:
    """Mix all bits of *word* with the finalizer of SplitMix64 (Steele, Lea and Flood 2014)."""
    word = (word ^ word >> 30) * 0xBF58_476D_1CE4_E5B9 & _BITS_64
    word = (word ^ word >> 27) * 0x94D0_49BB_1331_11EB & _BITS_64
    return word ^ word >> 31

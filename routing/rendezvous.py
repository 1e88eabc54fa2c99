"""The choice among workers that cost the same, so that replicas agree without asking each other.

A random choice spreads prompts over equal workers. But two gateways that see the same new prompt at one moment would
compute it twice. Rendezvous hashing spreads prompts as evenly, and makes the same choice everywhere. The hash covers
the first block of the prompt that none of the equal workers holds. Prompts that share only blocks that all of them hold
go different ways, and prompts that share more meet on one worker.
"""

import hashlib
from collections.abc import Sequence

from cache_index import Prefix, WorkerId
from cache_index.prefix import HASH_BYTES
from routing.candidate import Candidate
from routing.request import Request

TIE_S = 0.02
"""Difference in cost that is ignored: the loads that two replicas see differ by the events of some milliseconds."""

_BITS_64 = 0xFFFF_FFFF_FFFF_FFFF


class Rendezvous:
    """Orders candidates that cost the same. Costs within *tie_s* seconds of the lowest count as equal."""

    def __init__(self, tie_s: float = TIE_S) -> None:
        self.tie_s = tie_s
        self._seeds: dict[WorkerId, int] = {}

    def order(self, request: Request, tied: Sequence[Candidate]) -> list[Candidate] | None:
        """Return *tied* in the same order in every process, the longest hits first.

        None if the prompt has no full block, and so no hash that replicas share. O(tied).
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
    """The hash of the first block after the hit of *longest*, or of the last block if it holds all of them."""
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
    """Mix *word* so that each bit affects all others (Steele, Lea and Flood 2014, the finalizer of SplitMix64)."""
    word = (word ^ word >> 30) * 0xBF58_476D_1CE4_E5B9 & _BITS_64
    word = (word ^ word >> 27) * 0x94D0_49BB_1331_11EB & _BITS_64
    return word ^ word >> 31

"""Fleets whose engines report their caches, for tests."""

from cache_index import CacheIndex, Prefix, WorkerId
from cache_index.confirmed import Confirmed
from cache_index.event import Stored, Tier
from cache_index.residency import Residency
from cache_index.tokens import TokenHasher, pack, scope_of
from routing.fleet import Fleet
from routing.request import Request
from tests.routing.examples import BLOCK_BYTES, a_request, an_index

TOKEN_HASHER = TokenHasher(bytes(32))
BLOCK_TOKENS = 16
MODEL = "tiny"
SCOPE = scope_of(MODEL)


def reporting_fleet(
    *workers: WorkerId, trusted: bool = True, index: CacheIndex | None = None
) -> tuple[Fleet, Confirmed]:
    """A fleet like `a_fleet` at time 0, with an index of reports."""
    confirmed = Confirmed(Residency(TOKEN_HASHER, max_bytes=10_000_000))
    shadow = an_index() if index is None else index
    fleet = Fleet(shadow, confirmed=confirmed, block_bytes=BLOCK_BYTES, prefill_tokens_per_s=1000.0)
    fleet.set_workers(workers, 0.0)
    for worker in workers:
        fleet.set_trusted(worker, trusted=trusted)
    return fleet, confirmed


def ids_of(letters: str, block_tokens: int = BLOCK_TOKENS) -> list[int]:
    return [ord(letter) for letter in letters for _ in range(block_tokens)]


def exact_prefix(letters: str, block_tokens: int = BLOCK_TOKENS) -> Prefix:
    return TOKEN_HASHER.prefix(pack(ids_of(letters, block_tokens)), block_size=block_tokens, scope=SCOPE)


def an_exact_request(letters: str, *, more_tokens: int = 1, block_sizes: tuple[int, ...] = (BLOCK_TOKENS,)) -> Request:
    """A prompt of one block of 16 tokens to the letter and some tokens that make no block."""
    tokens = ids_of(letters)
    return a_request(
        letters,
        prompt_tokens=float(len(tokens) + more_tokens),
        exact=tuple(TOKEN_HASHER.prefix(pack(tokens), block_size=size, scope=SCOPE) for size in block_sizes),
    )


def stored(letters: str, tier: Tier = Tier.GPU, *, block_tokens: int = BLOCK_TOKENS) -> Stored:
    """A sequence from its first block on."""
    tokens = ids_of(letters)
    first = ord(letters[0]) * 1_000_000 + block_tokens * 1000
    return Stored([first + i for i in range(len(tokens) // block_tokens)], None, tokens, block_tokens, tier)

"""Sketch of the prefixes of prompts that requests ask for most often lately.

A prompt is a chain of blocks, and the hash of a block covers all blocks before it, so one hash identifies a prefix.
Prefixes are counted at fixed depths, two for each power of two. A depth is counted for a prompt only after the depth
before it was counted: a prompt that is asked for once takes up two counters, and the counters of a shared prefix reach
deeper with each request. If the sketch is full, the half of its counters with the lowest weights is removed.

The weight of a request halves every `HALF_LIFE_S`. Weights are lower bounds, because a removed counter starts again at
zero. No text is kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cache_index.prefix import HASH_BYTES, Prefix
from routing.request import Request

DEPTHS: Final = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Depths in blocks at which prefixes are counted."""
NEW_DEPTHS: Final = 2
"""Number of depths that one request adds at most."""
MAX_COUNTERS: Final = 2048
HALF_LIFE_S: Final = 300.0
MAX_TEAMS: Final = 8
"""Number of teams to remember for each prefix. The first ones that asked for it are kept."""
EXACT_AFTER: Final = 2
"""Number of requests after which the exact tokens of a prefix are kept too."""
MIN_REQUESTS: Final = 2
MIN_WEIGHT: Final = 1.5
"""Weight below which a prefix is not reported, because it was asked for long ago."""
CONTINUED_SHARE: Final = 0.5
"""Share of a prefix's requests that continue with the same blocks from which the prefix itself is not reported."""
_MAX_EXPONENT: Final = 64.0


class _Counter:
    """Requests for one prefix. *blocks* has the hashes that follow those of *parent*."""

    __slots__ = ("blocks", "count", "depth", "exact", "last_at", "model", "parent", "teams", "weight")

    def __init__(self, parent: "_Counter | None", depth: int, blocks: bytes, model: str) -> None:
        self.parent = parent
        self.depth = depth
        self.blocks = blocks
        self.model = model
        self.exact: tuple[Prefix, ...] = ()
        self.teams: dict[str, float] = {}
        self.count = 0
        self.weight = 0.0
        self.last_at = 0.0

    @property
    def key(self) -> bytes:
        return self.blocks[-HASH_BYTES:]

    def hashes(self) -> bytes:
        """Return the hashes of all blocks of the prefix. O(depths)."""
        parts = []
        counter: _Counter | None = self
        while counter is not None:
            parts.append(counter.blocks)
            counter = counter.parent
        return b"".join(reversed(parts))


@dataclass(frozen=True, slots=True)
class HotPrefix:
    """Prefix that several requests asked for lately."""

    prefix: Prefix
    exact: tuple[Prefix, ...]
    """The same prefix in exact tokens, once per block size of the workers, or an empty tuple if it is unknown."""
    model: str
    per_minute: float
    """Requests per minute, as a mean that gives recent minutes more weight."""
    teams: Mapping[str, float]
    """Requests per minute of the teams that ask for the prefix. Callers without a team have an empty name."""
    last_at: float
    """Monotonic time of the last request in seconds."""

    @property
    def id(self) -> str:
        """Hash of the prefix, which depends on a random key of the gateway."""
        return self.prefix.hashes[-HASH_BYTES:].hex()


class HotPrefixes:
    """Counters of prefixes, by the hash of their last block. At most `MAX_COUNTERS` are kept.

    *block_bytes* is the size of a block of text. A counter takes about 700 bytes, and 8 bytes for each block beyond its
    parent's depth, and as much again for the exact tokens.
    """

    def __init__(self, *, block_bytes: int, max_counters: int = MAX_COUNTERS) -> None:
        self._block_bytes = block_bytes
        self._max_counters = max_counters
        self._counters: dict[bytes, _Counter] = {}
        self._began = 0.0
        """Time at which a request has weight 1. Later requests weigh more, so that no counter must be reduced."""

    def __len__(self) -> int:
        return len(self._counters)

    def clear(self) -> None:
        """Forget all prefixes, because the key of their hashes changes."""
        self._counters.clear()

    def add(self, request: Request, model: str, team: str, at: float, *, stands_for: int = 1) -> None:
        """Count *request*, which ended at the monotonic time *at*, for *model* and *team*. It stands for so many
        requests of a sample.

        O(depths of the prompt), at most 17 look-ups. Every 1,000 new prefixes, the counters are sorted.
        """
        if at - self._began > _MAX_EXPONENT * HALF_LIFE_S:
            self._rebase(at)
        weight = stands_for * 2.0 ** ((at - self._began) / HALF_LIFE_S)
        hashes, new = request.prefix.hashes, 0
        parent: _Counter | None = None
        for depth in DEPTHS:
            end = depth * HASH_BYTES
            if end > len(hashes):
                break
            counter = self._counters.get(hashes[end - HASH_BYTES : end])
            if counter is None:
                if new == NEW_DEPTHS:
                    break
                new += 1
                before = 0 if parent is None else parent.depth * HASH_BYTES
                counter = _Counter(parent, depth, hashes[before:end], model)
                self._counters[counter.key] = counter
            self._count(counter, request, team, weight, at)
            parent = counter
        if len(self._counters) > self._max_counters:
            self._remove_half()

    def hottest(self, limit: int, now: float) -> list[HotPrefix]:
        """Return up to *limit* prefixes, those for which most tokens per minute are asked first.

        A prefix is left out if at least half of its requests continue with the same blocks, because a deeper prefix
        then represents them. O(counters), about 2 milliseconds.
        """
        scale = 2.0 ** ((self._began - now) / HALF_LIFE_S)
        chosen = sorted(self._branching(MIN_WEIGHT / scale), key=lambda each: each.weight * each.depth, reverse=True)[
            :limit
        ]
        per_minute = scale * 0.6931471805599453 * 60.0 / HALF_LIFE_S
        return [
            HotPrefix(
                Prefix(each.hashes()),
                each.exact,
                each.model,
                each.weight * per_minute,
                {team: weight * per_minute for team, weight in each.teams.items()},
                each.last_at,
            )
            for each in chosen
        ]

    def _count(self, counter: _Counter, request: Request, team: str, weight: float, at: float) -> None:
        counter.weight += weight
        counter.count += 1
        counter.last_at = at
        if team in counter.teams or len(counter.teams) < MAX_TEAMS:
            counter.teams[team] = counter.teams.get(team, 0.0) + weight
        if not counter.exact and request.exact and counter.count >= EXACT_AFTER:
            counter.exact = tuple(_leading(request, counter.depth * self._block_bytes))

    def _branching(self, min_weight: float) -> Iterator[_Counter]:
        """Yield the counters of at least *min_weight* whose requests do not mostly continue in the same way."""
        heaviest: dict[bytes, float] = {}
        for counter in self._counters.values():
            if counter.parent is not None and counter.count >= MIN_REQUESTS and counter.weight >= min_weight:
                key = counter.parent.key
                heaviest[key] = max(heaviest.get(key, 0.0), counter.weight)
        for counter in self._counters.values():
            continued = heaviest.get(counter.key, 0.0)
            is_shared = counter.count >= MIN_REQUESTS and counter.weight >= min_weight
            if is_shared and continued < CONTINUED_SHARE * counter.weight:
                yield counter

    def _remove_half(self) -> None:
        kept = sorted(self._counters.values(), key=lambda each: each.weight, reverse=True)[: self._max_counters // 2]
        self._counters = {counter.key: counter for counter in kept}

    def _rebase(self, at: float) -> None:
        """Express all weights relative to the time *at*, because the weights of requests would become too large."""
        scale = 2.0 ** ((self._began - at) / HALF_LIFE_S)
        self._began = at
        for counter in self._counters.values():
            counter.weight *= scale
            counter.teams = {team: weight * scale for team, weight in counter.teams.items()}


def _leading(request: Request, text_bytes: int) -> Sequence[Prefix]:
    """Return the exact tokens of the first *text_bytes* bytes of the prompt, by the prompt's mean bytes per token."""
    tokens = text_bytes * request.prompt_tokens / max(1, request.prompt_bytes)
    return [
        Prefix(prefix.hashes[: int(tokens) // prefix.block_tokens * HASH_BYTES], prefix.block_tokens)
        for prefix in request.exact
    ]

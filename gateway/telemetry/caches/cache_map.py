"""Map of the caches of one model: which worker holds how much of the prefixes that requests ask for most often."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cache_index import CacheIndex, WorkerId
from cache_index.confirmed import Confirmed
from cache_index.event import Tier
from gateway.models.model import Model
from gateway.telemetry.caches.cache_activity import CacheActivity
from gateway.telemetry.caches.hot_prefixes import HotPrefix
from routing.candidate import Source
from routing.worker import Worker

WORKERS_PER_TURN = 10
"""Number of workers after which other tasks get a turn."""
REUSE_SHARES = (0.5, 0.9)
FULL_SHARE = 0.98
"""Share of a cache from which it counts as full, because a few blocks are free between two requests."""


@dataclass(frozen=True, slots=True)
class TeamDemand:
    team: str
    """Name of the team, empty for callers without a team."""
    requests_per_minute: float


@dataclass(frozen=True, slots=True)
class PrefixDemand:
    """Prefix that several requests asked for lately. Numbers of tokens are estimates."""

    id: str
    """Hash of the prefix. It depends on a random key of the gateway, so it cannot be computed from a known text."""
    blocks: int
    """Length in blocks of text, rounded down to a depth at which prefixes are counted."""
    tokens: int
    requests_per_minute: float
    """Mean of recent minutes, with a half-life of 5 minutes."""
    teams: tuple[TeamDemand, ...]
    """Teams that ask for the prefix, most requests first. At most 8 teams are remembered."""
    last_used_s: float
    """Seconds since the last request for the prefix."""
    words: str | None = None
    """First words of the prefix, only if prompts are recorded for every team that uses the prefix and if the settings
    allow it.
    """


@dataclass(frozen=True, slots=True)
class HeldPrefix:
    """Tokens of a prefix in the cache of one worker, up to the first missing block."""

    prefix: str
    """Hash of the prefix."""
    tokens: int
    cpu_tokens: int
    """Part of the tokens that the worker would load from its CPU memory."""
    disk_tokens: int
    shared_tokens: int
    """Part of the tokens that the worker would load from a shared store."""


@dataclass(frozen=True, slots=True)
class WorkerCache:
    """Cache of one worker. Shares concern requests of the last 10 minutes whose cached tokens the engine reported."""

    worker: str
    state: str
    """State of the worker: up, down, asleep or draining."""
    source: Source
    """Source of the cache contents: reported by the engine's KV events, or predicted from the requests sent."""
    used_tokens: int
    capacity_tokens: int
    free_tokens: int
    cpu_tokens: int
    """Tokens in the tier in CPU memory, according to the engine's KV events."""
    disk_tokens: int
    engine_usage: float | None
    """Share of the cache that running requests use according to the engine, or None if it did not report it."""
    eviction_age_s: float | None
    """Seconds since the last use of the block that the worker evicts next, or None if it holds nothing or if the last
    use was more than an hour ago.
    """
    is_full: bool
    """Whether the next new block evicts another one, so that blocks are evicted at the age *eviction_age_s*."""
    requests: int
    """Requests of the last 10 minutes whose cached tokens are known."""
    reuse_share: float | None
    """Share of prompt tokens that came from the cache, or None without requests."""
    thrash_share: float | None
    """Share of computed prompt tokens that this worker had computed before and evicted, or None if it computed none."""
    held: tuple[HeldPrefix, ...]
    """Prefixes of the map of which the worker holds at least one block."""


@dataclass(frozen=True, slots=True)
class CacheMap:
    """Map of one model's caches, as far as this gateway knows them."""

    model: str
    prefixes: tuple[PrefixDemand, ...]
    """Prefixes for which most tokens per minute are asked first."""
    reuse_age_p50_s: float | None
    """Time between two uses of a block within which half of the reused blocks of all models were used again, or None if
    no block was used again or if the time exceeds an hour.
    """
    reuse_age_p90_s: float | None
    workers: tuple[WorkerCache, ...]
    """Workers in order of their IDs."""
    next: str | None = None
    """Value of `after` for the next page of workers, or None on the last page."""
    models: tuple[str, ...] = ()
    """Names of all models that have such a view."""


@dataclass(frozen=True, slots=True)
class CacheMaps:
    """Reader of cache maps. It changes no state, except that predictions whose time is over are removed."""

    activity: CacheActivity
    index: CacheIndex
    confirmed: Confirmed
    block_bytes: int
    clock: Callable[[], float]

    async def of(self, model: Model, workers: Sequence[WorkerId], *, prefixes: int) -> CacheMap:
        """Return the map of *workers* of *model* with up to *prefixes* prefixes.

        O(prefixes * workers + counted prefixes): 20 prefixes on 500 workers take about 30 ms. Other tasks run after
        each prefix and each 10 workers, so the event loop is blocked for a few milliseconds at most.
        """
        now = self.clock()
        hot = [each for each in self.activity.prefixes.hottest(1000, now) if each.model == model.name][:prefixes]
        held: dict[WorkerId, list[HeldPrefix]] = {}
        for each in hot:
            for worker, found in self._holders(model, each).items():
                held.setdefault(worker, []).append(found)
            await asyncio.sleep(0)
        shown: list[WorkerCache] = []
        usage = {reading.worker: reading.values.get("engine_kv_usage_ratio") for reading in model.readings(now)}
        present = {state.id: state for state in model.fleet}
        for number, worker in enumerate(workers, start=1):
            if worker in present:
                shown.append(self._worker(model, present[worker], usage.get(worker), held.get(worker, []), now))
            if number % WORKERS_PER_TURN == 0:
                await asyncio.sleep(0)
        reuse_p50_s, reuse_p90_s = (self._reuse_age_s(share) for share in REUSE_SHARES)
        demands = tuple(self._demand(model, each, now) for each in hot)
        return CacheMap(model.name, demands, reuse_p50_s, reuse_p90_s, tuple(shown))

    def _tokens_per_block(self, model: Model) -> float:
        return self.block_bytes / model.fleet.bytes_per_token.ratio

    def _demand(self, model: Model, hot: HotPrefix, now: float) -> PrefixDemand:
        teams = sorted(hot.teams.items(), key=lambda each: each[1], reverse=True)
        return PrefixDemand(
            id=hot.id,
            blocks=hot.prefix.blocks,
            tokens=round(hot.prefix.blocks * self._tokens_per_block(model)),
            requests_per_minute=round(hot.per_minute, 3),
            teams=tuple(TeamDemand(team, round(per_minute, 3)) for team, per_minute in teams),
            last_used_s=round(max(0.0, now - hot.last_at), 3),
            words=None if self.activity.words is None else self.activity.words.find(hot.prefix),
        )

    def _holders(self, model: Model, hot: HotPrefix) -> Mapping[WorkerId, HeldPrefix]:
        """Return the workers of *model* that hold at least one block of the prefix *hot*. O(nodes + workers)."""
        trusted = {worker.id for worker in model.fleet if worker.is_confirmed} if hot.exact else set()
        per_block = self._tokens_per_block(model)
        found = {
            worker: HeldPrefix(hot.id, round(blocks * per_block), 0, 0, 0)
            for worker, blocks in self.index.match(hot.prefix).items()
            if worker not in trusted
        }
        for exact in hot.exact if trusted else ():
            size = exact.block_tokens
            for worker, hit in self.confirmed.match(exact, self.clock()).items():
                if worker in trusted:
                    tiers = (hit.cpu * size, hit.disk * size, hit.shared * size)
                    found[worker] = HeldPrefix(hot.id, hit.blocks * size, *tiers)
        return found

    def _worker(
        self, model: Model, worker: Worker, engine_usage: float | None, held: list[HeldPrefix], now: float
    ) -> WorkerCache:
        used, capacity = self._room(model, worker)
        recent = self.activity.history.recent(model.name, worker.id)
        oldest = self.index.oldest_use(worker.id)
        eviction_age_s = None if oldest is None else self.activity.use_times.age_s(oldest, now)
        return WorkerCache(
            worker=worker.id,
            state=worker.why_not_ready or "up",
            source="reported" if worker.is_confirmed else "predicted",
            used_tokens=used,
            capacity_tokens=capacity,
            free_tokens=max(0, capacity - used),
            cpu_tokens=self._tier_tokens(worker, Tier.CPU),
            disk_tokens=self._tier_tokens(worker, Tier.DISK),
            engine_usage=engine_usage,
            eviction_age_s=_rounded(eviction_age_s),
            is_full=used >= FULL_SHARE * capacity,
            requests=round(recent.requests),
            reuse_share=_share(recent.reuse_share),
            thrash_share=_share(recent.thrash_share),
            held=tuple(held),
        )

    def _room(self, model: Model, worker: Worker) -> tuple[int, int]:
        """Return the used tokens and the capacity in tokens of the worker's cache on its GPU."""
        if worker.is_confirmed and worker.engine_capacity is not None:
            blocks, size = worker.engine_capacity
            return self._tier_tokens(worker, Tier.GPU), blocks * size
        per_block = self._tokens_per_block(model)
        return round(self.index.held(worker.id) * per_block), round(self.index.capacity(worker.id) * per_block)

    def _tier_tokens(self, worker: Worker, tier: Tier) -> int:
        return self.confirmed.held_in(worker.id, tier) * (self.confirmed.block_size(worker.id) or 0)

    def _reuse_age_s(self, share: float) -> float | None:
        uses = self.index.reuse.age_of(share)
        return None if uses is None else _rounded(self.activity.use_times.span_s(uses))


def _share(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)

"""Maps of a model with three workers; one block of 16 tokens per letter."""

from cache_index.event import Tier
from gateway.protocol.usage import Usage
from gateway.telemetry.caches.cache_map import CacheMap, CacheMaps, HeldPrefix, TeamDemand
from tests.gateway.telemetry.caches.examples import Observed
from tests.routing.confirmed_examples import MODEL, an_exact_request, stored
from tests.routing.examples import BLOCK_BYTES, A, B, C, a_request, prompt


async def map_of(observed: Observed, *, prefixes: int = 20) -> CacheMap:
    maps = CacheMaps(observed.activity, observed.index, observed.confirmed, BLOCK_BYTES, observed.clock)
    return await maps.of(observed.model, [A, B, C], prefixes=prefixes)


async def test_a_map_without_requests_is_empty() -> None:
    found = await map_of(Observed())

    assert ("tiny", (), None, None) == (found.model, found.prefixes, found.reuse_age_p50_s, found.reuse_age_p90_s)
    assert ["a", "b", "c"] == [worker.worker for worker in found.workers]
    assert ("up", "predicted", 0, False, None) == (
        found.workers[0].state,
        found.workers[0].source,
        found.workers[0].used_tokens,
        found.workers[0].is_full,
        found.workers[0].eviction_age_s,
    )


async def test_a_hot_prefix_with_its_teams_and_holders() -> None:
    """Worker a holds all 6 blocks, b the first 2, and c none."""
    observed = Observed()
    observed.index.record(A, prompt("abcdef"))
    observed.index.record(B, prompt("abXY"))
    for team in ("blue", "blue", "red"):
        observed.activity.observe([observed.answered(a_request("abcdef"), team=team)])
    observed.clock.now = 104.0
    found = await map_of(observed)
    (prefix,) = found.prefixes

    assert (prompt("abcdef").hashes[-8:].hex(), 6, 96, 4.0) == (
        prefix.id,
        prefix.blocks,
        prefix.tokens,
        prefix.last_used_s,
    )
    assert ["blue", "red"] == [team.team for team in prefix.teams]
    assert isinstance(prefix.teams[0], TeamDemand)
    assert [(96,), (32,), ()] == [tuple(held.tokens for held in worker.held) for worker in found.workers]
    assert [96, 64, 0] == [worker.used_tokens for worker in found.workers]


async def test_tiers_of_workers_that_report_their_caches() -> None:
    """Worker a has 4 blocks on its GPU and 2 in its host memory; the prediction for b counts, for c no report does."""
    observed = Observed(trusted=True)
    observed.model.fleet.set_trusted(B, trusted=False)
    observed.index.record(B, prompt("abcdef"))
    observed.index.record(C, prompt("abcdef"))
    observed.confirmed.apply(A, stored("abcd"), model=MODEL)
    observed.confirmed.apply(A, stored("abcdef", Tier.CPU), model=MODEL)
    for _ in range(3):
        observed.activity.observe([observed.answered(an_exact_request("abcdef", more_tokens=0))])
    found = await map_of(observed)
    (prefix,) = found.prefixes

    assert [(HeldPrefix(prefix.id, 96, 32, 0, 0),), (HeldPrefix(prefix.id, 96, 0, 0, 0),), ()] == [
        worker.held for worker in found.workers
    ]
    assert ["reported", "predicted", "reported"] == [worker.source for worker in found.workers]
    assert 96 == found.workers[0].cpu_tokens


async def test_room_of_a_worker_that_reports_its_cache() -> None:
    observed = Observed(trusted=True)
    observed.model.fleet.set_capacity(A, blocks=4, block_size=16)
    observed.confirmed.apply(A, stored("abcd"), model=MODEL)
    (worker, *_) = (await map_of(observed)).workers

    assert (64, 64, 0, True) == (worker.used_tokens, worker.capacity_tokens, worker.free_tokens, worker.is_full)


async def test_ages_are_in_seconds() -> None:
    """Worker a used its oldest block 4 s ago; all blocks were reused after 2 uses of the index, 4 s."""
    observed = Observed()
    for letters in ("abcd", "efgh", "abcd", "efgh"):
        observed.index.record(A, prompt(letters))
        observed.activity.use_times.note(observed.index.uses, observed.clock.now)
        observed.clock.now += 2.0
    found = await map_of(observed)

    assert 4.0 == found.workers[0].eviction_age_s
    assert (4.0, 4.0) == (found.reuse_age_p50_s, found.reuse_age_p90_s)


async def test_shares_of_recent_requests() -> None:
    observed = Observed()
    request = a_request("abcdefghijklmnop")
    observed.activity.observe([observed.answered(request)])
    observed.activity.observe([observed.answered(request, usage=Usage(256, 1, 128))])
    (worker, *_) = (await map_of(observed)).workers

    assert (2, 0.25, 0.3333) == (worker.requests, worker.reuse_share, worker.thrash_share)


async def test_other_models_have_other_prefixes() -> None:
    observed = Observed()
    observed.activity.observe([observed.answered(a_request("abcd"), model="other") for _ in range(4)])

    assert () == (await map_of(observed)).prefixes


async def test_the_number_of_prefixes_is_bounded() -> None:
    observed = Observed()
    for letter in "abcdef":
        observed.activity.observe([observed.answered(a_request(letter * 4)) for _ in range(4)])

    assert 2 == len((await map_of(observed, prefixes=2)).prefixes)


async def test_a_worker_that_left_is_not_shown() -> None:
    observed = Observed()
    observed.model.fleet.set_workers([A, C], 100.0)

    assert ["a", "c"] == [worker.worker for worker in (await map_of(observed)).workers]


async def test_other_tasks_run_between_workers() -> None:
    """Even if many workers are shown."""
    observed = Observed()
    maps = CacheMaps(observed.activity, observed.index, observed.confirmed, BLOCK_BYTES, observed.clock)

    assert 30 == len((await maps.of(observed.model, [A] * 30, prefixes=1)).workers)

"""Rules that derive findings from facts about models, teams, the store and the gateway."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from gateway.api.admin_v1.findings import worker_rules
from gateway.api.admin_v1.findings.finding import SEVERITIES, Finding
from gateway.api.admin_v1.gateway_facts import FallbackFacts, GatewayFacts, ModelFacts, StoreFacts, TeamFacts

ENOUGH_REQUESTS = 20
SHORT_SHARE = 0.9
"""Share of prompts shorter than one block above which no cache hits can be expected."""
ENOUGH_SPREAD = 200
"""Minimum number of requests for a judgment of their distribution over the workers."""
MOST_SHARE = 0.8
"""Share of a model's requests that is too high for one of several workers."""
BUSY_S = 1.0
IDLE_DAYS = 30
"""Days after which AWS denies legacy models to an account that has not used them."""
DAY_S = 86_400.0
MISSED = 2
"""Number of canary intervals after which a canary request that was not sent counts as overdue."""
GRACE_S = 300.0
CLOCK_S = 5.0
SHOWN_KEYS = 5


def diagnosed(facts: GatewayFacts) -> list[Finding]:
    """Return all findings, most severe first, and otherwise in the order of the settings."""
    found = [
        *(finding for model in facts.models for finding in _of_model(model)),
        *(finding for team in facts.teams for finding in keys_without_limits(team)),
        *store_findings(facts),
        *open_to_network(facts),
        *clock_of_gateway(facts),
    ]
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def _of_model(model: ModelFacts) -> Iterator[Finding]:
    for rule in MODEL_RULES:
        yield from rule(model)
    for worker in model.workers:
        yield from worker_rules.findings_of(model, worker)


# ---- models


def not_ready(model: ModelFacts) -> Iterator[Finding]:
    if model.not_ready is not None:
        text = f"The model cannot answer requests: {model.not_ready}."
        yield Finding(code="model-not-ready", text=text, model=model.name)


def round_robin(model: ModelFacts) -> Iterator[Finding]:
    if model.strategy == "round_robin" and (len(model.workers) > 1 or model.may_find_workers):
        text = "The strategy round_robin sends requests to workers in turn, regardless of cached prefixes."
        yield Finding(code="round-robin-configured", text=text, model=model.name)


def different_block_sizes(model: ModelFacts) -> Iterator[Finding]:
    """Report workers whose block size differs from that of most workers of the model."""
    sizes = {worker.id: worker.event_block_size or worker.block_size for worker in model.workers}
    counts = Counter(size for size in sizes.values() if size is not None)
    if len(counts) < 2:
        return
    usual, _ = counts.most_common(1)[0]
    for worker, size in sizes.items():
        if size not in (None, usual):
            text = f"The worker has KV cache blocks of {size} tokens, but most workers of the model have {usual}."
            yield Finding(code="wrong-block-size", text=text, model=model.name, worker=worker)


def different_hash_seeds(model: ModelFacts) -> Iterator[Finding]:
    """Report engines of one kind that compute different hashes for the same block.

    Where all differ, no seed is set, which is vLLM's default and harms only shared stores. Where some agree, a
    seed is set, and the others miss it.
    """
    hashes = {
        (worker.engine, worker.event_block_size, worker.id): worker.check.block_hash
        for worker in model.workers
        if worker.check is not None and worker.check.block_hash is not None
    }
    for group in dict.fromkeys((engine, size) for engine, size, _ in hashes):
        members = {name: value for (engine, size, name), value in hashes.items() if (engine, size) == group}
        yield from _different_hashes(model, members)


def _different_hashes(model: ModelFacts, hashes: dict[str, str]) -> Iterator[Finding]:
    counts = Counter(hashes.values())
    if len(counts) < 2:
        return
    usual, agreeing = counts.most_common(1)[0]
    if agreeing > 1:
        for worker, value in hashes.items():
            if value != usual:
                text = "PYTHONHASHSEED or the hash function of the engine differs from that of other workers."
                yield Finding(code="hash-seeds-differ", text=text, model=model.name, worker=worker)
        return
    shares = any(worker.shared_blocks for worker in model.workers)
    text = f"{len(hashes)} engines all hash the same block differently because PYTHONHASHSEED is not set."
    yield Finding(code="hash-seeds-differ", text=text, model=model.name, other_severity="warning" if shares else "info")


def tokenizer_not_loaded(model: ModelFacts) -> Iterator[Finding]:
    if model.is_tokenizer_missing:
        text = "The tokenizer at tokenizer.path could not be loaded."
        yield Finding(code="tokenizer-not-loaded", text=text, model=model.name)


def short_prompts(model: ModelFacts) -> Iterator[Finding]:
    if model.requests >= ENOUGH_REQUESTS and model.short_prompts >= SHORT_SHARE * model.requests:
        text = f"{model.short_prompts} of {model.requests} prompts are shorter than a block and cannot hit the cache."
        yield Finding(code="prompts-under-one-block", text=text, model=model.name)


def uneven_traffic(model: ModelFacts) -> Iterator[Finding]:
    """Report that one of several available workers answers almost everything, and whether requests wait there."""
    ready = [worker for worker in model.workers if worker.state == "up" and worker.role != "prefill"]
    total = sum(worker.requests for worker in ready)
    if len(ready) < 2 or total < ENOUGH_SPREAD:
        return
    busiest = max(ready, key=lambda worker: worker.requests)
    if busiest.requests <= MOST_SHARE * total:
        return
    waits = busiest.backlog_s > BUSY_S and all(each.backlog_s < BUSY_S for each in ready if each is not busiest)
    text = f"One of {len(ready)} available workers answered {busiest.requests} of {total} requests."
    yield Finding(
        code="uneven-traffic",
        text=text,
        model=model.name,
        worker=busiest.id,
        other_severity="warning" if waits else None,
    )


def canaries(model: ModelFacts) -> Iterator[Finding]:
    for fallback in model.fallbacks:
        if fallback.is_ok is False:
            text = "The last test request to the fallback failed."
            yield Finding(code="failed-canary", text=text, model=model.name, fallback=fallback.id)
        text = _overdue(fallback)
        if text:
            yield Finding(code="expired-canary", text=text, model=model.name, fallback=fallback.id)
        if fallback.is_legacy:
            text = "AWS marks the fallback's model as legacy."
            yield Finding(code="legacy-fallback", text=text, model=model.name, fallback=fallback.id)


def _overdue(fallback: FallbackFacts) -> str:
    """Return why test requests do not keep the fallback's model available, or an empty string if they do."""
    age_s, every_s = fallback.age_s, fallback.every_s
    if age_s is not None and age_s > IDLE_DAYS * DAY_S:
        return f"The last test request to the fallback was {age_s / DAY_S:.0f} days ago."
    if every_s is None:
        return "Test requests to the fallback are not repeated, because bedrock.canary_every_s is null."
    if every_s > IDLE_DAYS * DAY_S:
        return f"Test requests to the fallback are {every_s / DAY_S:.0f} days apart (bedrock.canary_every_s)."
    if age_s is not None and age_s > MISSED * every_s + GRACE_S:
        return f"The last test request to the fallback was {age_s:.0f} s ago. One is due every {every_s:.0f} s."
    return ""


MODEL_RULES: Sequence[Callable[[ModelFacts], Iterator[Finding]]] = (
    not_ready,
    round_robin,
    different_block_sizes,
    different_hash_seeds,
    tokenizer_not_loaded,
    short_prompts,
    uneven_traffic,
    canaries,
)


# ---- teams, the store and the gateway


def keys_without_limits(team: TeamFacts) -> Iterator[Finding]:
    keys = team.unlimited_keys
    if keys:
        named = ", ".join(keys[:SHOWN_KEYS]) + (f" and {len(keys) - SHOWN_KEYS} more" if len(keys) > SHOWN_KEYS else "")
        text = f"Neither the team nor these keys have a limit: {named}."
        yield Finding(code="key-without-limits", text=text, team=team.name)


def store_findings(facts: GatewayFacts) -> Iterator[Finding]:
    store = facts.store
    if store.kind is None:
        if facts.teams:
            text = "Teams are configured without store.url, so usage, budgets and new keys are lost on restart."
            yield Finding(code="no-store", text=text)
        return
    if store.state not in (None, "ready"):
        reason = f": {store.fault}" if store.fault else ""
        yield Finding(code="store-unavailable", text=f"The store cannot be used ({_state(store)}){reason}.")
    if store.dropped_entries:
        text = f"{store.dropped_entries} ledger entries were dropped."
        yield Finding(code="ledger-entries-lost", text=text)


def open_to_network(facts: GatewayFacts) -> Iterator[Finding]:
    if facts.open_mode == "network":
        text = "Every host can send requests: server.open_mode is network, and no teams and no store are configured."
        yield Finding(code="open-to-network", text=text)


def clock_of_gateway(facts: GatewayFacts) -> Iterator[Finding]:
    if facts.time is not None and facts.asked_at is not None and abs(facts.time - facts.asked_at) > CLOCK_S:
        text = f"The clocks of the gateway and this machine differ by {abs(facts.time - facts.asked_at):.0f} s."
        yield Finding(code="clock-skew", text=text)


def _state(store: StoreFacts) -> str:
    return (store.state or "").replace("_", " ")

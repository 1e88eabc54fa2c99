"""Queries to the workers in a settings file, which give a diagnosis facts without a running gateway."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from gateway.api.admin_v1.gateway_facts import GatewayFacts, ModelFacts, StreamFacts, WorkerFacts
from gateway.backends.client import WorkerClient
from gateway.backends.engine_watch import EngineWatch
from gateway.backends.probe import WorkerProbe
from gateway.workers.kv_events.sources import find_sources
from gateway.workers.worker_spec import WorkerSpec

TIMEOUT_S = 3.0
AT_ONCE = 16
"""Maximum number of workers to query at the same time."""


async def with_answers(facts: GatewayFacts, specs: Mapping[tuple[str, str], WorkerSpec]) -> GatewayFacts:
    """Return *facts* with the answers of the workers in *specs*, by model and worker id.

    Workers that share an address are not asked.
    """
    turn = asyncio.Semaphore(AT_ONCE)
    async with WorkerClient() as client:

        async def asked(model: ModelFacts, worker: WorkerFacts) -> WorkerFacts:
            spec = specs[model.name, worker.id]
            if spec.dynamo is not None or spec.ranks != 1 or spec.place is not None:
                return worker
            async with turn:
                return await _asked(worker, spec, client)

        models = [
            replace(model, workers=tuple(await asyncio.gather(*(asked(model, worker) for worker in model.workers))))
            for model in facts.models
        ]
    return replace(facts, models=tuple(models))


async def _asked(worker: WorkerFacts, spec: WorkerSpec, client: WorkerClient) -> WorkerFacts:
    probe = WorkerProbe(client, spec.url, timeout_s=TIMEOUT_S, headers=spec.authorization)
    if await probe.status("/v1/models") is None:
        return replace(worker, fault=probe.fault)
    reading = await EngineWatch(probe).read()
    if reading is not None:
        size = reading.block_size
        worker = replace(
            worker,
            engine=reading.engine,
            prefix_caching=reading.prefix_caching,
            block_size=size,
            capacity_blocks=None if not size or reading.cache_tokens is None else reading.cache_tokens // size,
        )
    return worker if worker.stream is not None else replace(worker, stream=await _stream(spec, probe))


async def _stream(spec: WorkerSpec, probe: WorkerProbe) -> StreamFacts | None:
    """Return the engine's information about its KV events, or None if it gives none."""
    sources = await find_sources(probe, host=urlsplit(spec.url).hostname or "")
    if sources is None or not sources.of_ranks:
        return None
    has_replay = all(source.replay_endpoint is not None for source in sources.of_ranks)
    return StreamFacts(state="untrusted", has_replay=has_replay)

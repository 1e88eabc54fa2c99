"""Facts about a settings file, for a diagnosis without a gateway."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.api.admin_v1.gateway_facts import (
    FallbackFacts,
    GatewayFacts,
    ModelFacts,
    StoreFacts,
    StreamFacts,
    WorkerFacts,
)
from gateway.app.config_source import load_settings
from gateway.app.diagnosis.team_facts import team_facts
from gateway.app.fallbacks import canary_rules
from gateway.app.mapping.tenancy import declared_in, store_rules
from gateway.app.mapping.workers import model_workers
from gateway.app.store_rules import StoreRules, kind_of
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.secret import Digester
from gateway.workers.worker_spec import EventsSpec, WorkerSpec
from routing.strategies import STRATEGIES


@dataclass(frozen=True, slots=True)
class SettingsFacts:
    """Facts about a settings file, with the addresses of workers and stores that a diagnosis can query."""

    facts: GatewayFacts
    workers: Mapping[tuple[str, str], WorkerSpec]
    """Workers in the settings, by model and worker id."""
    store: StoreRules | None
    """Rules for access to the store, or None if no store is configured."""


def settings_facts(path: Path | None, *, now: float) -> SettingsFacts:
    """Return the facts about the settings at *path*.

    None: all settings come from variables. *now* is in seconds since 1970.

    Raises:
        SettingsError: the settings are wrong.
    """
    settings = load_settings(path)
    directory = Directory()
    directory.declare(declared_in(settings, Digester(b"diagnosis")))  # digests are compared with each other only
    teams = team_facts(directory.teams.values(), directory.keys, now=now)
    every_s = canary_rules(settings).every_s
    store = None if settings.store.url is None else store_rules(settings)
    specs = {each.name: each.workers for each in model_workers(settings.models)}
    models = tuple(
        ModelFacts(
            name=model.name,
            strategy=model.strategy,
            uses_events=STRATEGIES[model.strategy].needs_events and model.tokenizer.source != "none",
            workers=tuple(map(_worker, specs[model.name])),
            may_find_workers=any((model.workers_file, model.service, model.pods, model.inference_pool, model.dns)),
            fallbacks=tuple(
                FallbackFacts(id=f"bedrock:{each.bedrock.model_id}", every_s=every_s)
                for each in model.fallbacks
                if each.bedrock is not None
            ),
        )
        for model in settings.models
    )
    is_open = not teams and settings.store.url is None
    facts = GatewayFacts(
        open_mode=settings.server.open_mode if is_open else None,
        models=models,
        teams=teams,
        store=StoreFacts(kind=None if store is None else kind_of(store)),
    )
    return SettingsFacts(facts, dict(_named(specs)), store)


def _named(specs: dict[str, tuple[WorkerSpec, ...]]) -> Iterator[tuple[tuple[str, str], WorkerSpec]]:
    for model, workers in specs.items():
        for worker in workers:
            yield (model, worker.id), worker


def _worker(spec: WorkerSpec) -> WorkerFacts:
    return WorkerFacts(
        id=spec.id,
        state="draining" if spec.draining else None,
        role=spec.role,
        stream=None if spec.kv_events is None else stream_of(spec.kv_events),
    )


def stream_of(events: EventsSpec) -> StreamFacts:
    """Return the facts about a KV event stream that its settings contain."""
    return StreamFacts(state="untrusted", has_replay=events.replay_endpoint is not None)

"""All settings of the gateway, in groups.

Each setting is declared once. The settings table in the documentation shows its name, type, default and description.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from gateway.protocol.contradictions import Contradiction, ambiguous, repeated
from gateway.protocol.field_names import Place
from gateway.protocol.field_types import Group
from gateway.settings.adapters import AdaptersSettings
from gateway.settings.admin import AdminSettings
from gateway.settings.advanced import AdvancedSettings
from gateway.settings.alerts import AlertsSettings
from gateway.settings.batches import BatchesSettings
from gateway.settings.console import ConsoleSettings
from gateway.settings.discovery import KubernetesSettings
from gateway.settings.engine_events import WorkerEventsSettings
from gateway.settings.failures import BreakerSettings, DrainSettings, HealthSettings, RetrySettings, TimeoutSettings
from gateway.settings.fallbacks import (
    BedrockSettings,
    ModelBedrockSettings,
)
from gateway.settings.files import FilesSettings
from gateway.settings.guardrails import GuardrailSettings, unknown_guardrails
from gateway.settings.identity import IdentitySettings, faults_of_issuers
from gateway.settings.models import ModelSettings
from gateway.settings.named_rules import faults_of_named_rules
from gateway.settings.picker import PickerSettings
from gateway.settings.quota import QueueSettings, QuotaSettings
from gateway.settings.response_cache import ResponseCacheSettings
from gateway.settings.rollout import RouteSettings, unknown_models
from gateway.settings.routing import IndexSettings, KvEventsSettings, RoutingSettings
from gateway.settings.rules import is_local_zmq, unless_contradictory
from gateway.settings.server import LoggingSettings, ServerSettings
from gateway.settings.shapes import RequestShapesSettings
from gateway.settings.stores import ReplicasSettings, StoreSettings
from gateway.settings.teams import LimitTemplateSettings, ModelGroupSettings, TeamSettings
from gateway.settings.tracing import TracingSettings


class Settings(Group):
    """All settings of the gateway. They are built once, by `load` or by a test, and then passed to other parts."""

    server: ServerSettings = Field(
        default=ServerSettings(), description="addresses, limits and timeouts of the gateway's own HTTP server"
    )
    models: Annotated[tuple[ModelSettings, ...], Field(strict=False)] = Field(
        description="models that the gateway serves, with their workers"
    )
    routes: Annotated[tuple[RouteSettings, ...], Field(strict=False)] = Field(
        default=(),
        description="names that stand for several models: canaries, A/B tests, or rules by properties of the request",
    )
    adapters: AdaptersSettings = Field(default=AdaptersSettings(), description="loading of LoRA adapters by workers")
    routing: RoutingSettings = Field(
        default=RoutingSettings(), description="queueing and tie-breaking when a worker is chosen"
    )
    index: IndexSettings = Field(default=IndexSettings(), description="index of the prefixes that workers have cached")
    kv_events: KvEventsSettings = Field(
        default=KvEventsSettings(), description="KV events that engines publish about their caches, for kv_aware"
    )
    timeouts: TimeoutSettings = Field(default=TimeoutSettings(), description="time limits for requests to workers")
    health: HealthSettings = Field(default=HealthSettings(), description="health checks of workers")
    breaker: BreakerSettings = Field(
        default=BreakerSettings(), description="circuit breakers, which keep requests away from failing workers"
    )
    retry: RetrySettings = Field(default=RetrySettings(), description="retries of failed requests on other workers")
    kubernetes: KubernetesSettings = Field(
        default=KubernetesSettings(), description="discovery of workers in Kubernetes"
    )
    drain: DrainSettings = Field(default=DrainSettings(), description="draining of workers before they stop")
    logging: LoggingSettings = Field(default=LoggingSettings(), description="program log and request log")
    tracing: TracingSettings = Field(default=TracingSettings(), description="export of traces with OpenTelemetry")
    request_shapes: RequestShapesSettings = Field(
        default=RequestShapesSettings(), description="recording of the times and sizes of requests for replays"
    )
    files: FilesSettings = Field(default=FilesSettings(), description="files that teams upload for batches (/v1/files)")
    batches: BatchesSettings = Field(
        default=BatchesSettings(),
        description="batches (/v1/batches), which run when workers have time. They are served if files.folder or "
        "files.s3 is set.",
    )
    response_cache: ResponseCacheSettings = Field(
        default=ResponseCacheSettings(), description="cache of complete answers (models[].response_cache)"
    )
    bedrock: BedrockSettings = Field(
        default=BedrockSettings(), description="Amazon Bedrock settings that all models share"
    )
    teams: Annotated[tuple[TeamSettings, ...], Field(strict=False)] = Field(
        default=(),
        description="teams whose API keys can send requests. Without teams and a store, only programs on this "
        "machine can send requests (see server.open_mode).",
    )
    limit_templates: Annotated[tuple[LimitTemplateSettings, ...], Field(strict=False)] = Field(
        default=(), description="limits that teams and keys refer to by name (limit_template) instead of repeating them"
    )
    model_groups: Annotated[tuple[ModelGroupSettings, ...], Field(strict=False)] = Field(
        default=(), description="groups of models, which lists of allowed models can contain as group:NAME"
    )
    identity: IdentitySettings = Field(
        default=IdentitySettings(), description="tokens of identity providers, which replace API keys"
    )
    guardrails: Annotated[tuple[GuardrailSettings, ...], Field(strict=False)] = Field(
        default=(), description="checks of requests and answers, which models and teams select by name"
    )
    alerts: AlertsSettings = Field(
        default=AlertsSettings(), description="alerts about budgets and unusual cost, and the receivers of alerts"
    )
    admin: AdminSettings = Field(default=AdminSettings(), description="admin API under /admin/v1")
    picker: PickerSettings = Field(
        default=PickerSettings(),
        description="endpoint picker for Envoy, which the command `warmgate picker` runs",
    )
    console: ConsoleSettings = Field(
        default=ConsoleSettings(), description="console: web pages for people who operate the gateway"
    )
    store: StoreSettings = Field(default=StoreSettings(), description="storage of API keys, quotas and the ledger")
    replicas: ReplicasSettings = Field(
        default=ReplicasSettings(),
        description="state that several gateways with the same workers share through a Redis store",
    )
    quota: QuotaSettings = Field(default=QuotaSettings(), description="counting of limits and budgets")
    queue: QueueSettings = Field(default=QueueSettings(), description="fair-share scheduling of teams")
    advanced: AdvancedSettings = Field(
        default=AdvancedSettings(), description="tuning parameters, which few deployments have to change"
    )

    @model_validator(mode="before")
    @classmethod
    def _an_empty_group_is_its_defaults(cls, data: Any) -> Any:
        # `logging:` with every line under it commented out reads as null.
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        names: list[tuple[Place, str]] = []
        for i, model in enumerate(self.models):
            names.append((("models", i, "name"), model.name))
            names.extend((("models", i, "aliases", j), alias) for j, alias in enumerate(model.aliases))
        for i, route in enumerate(self.routes):
            names.append((("routes", i, "name"), route.name))
            names.extend((("routes", i, "aliases", j), alias) for j, alias in enumerate(route.aliases))
        workers: list[tuple[Place, str, str]] = [
            (("models", i, "workers", j), worker.id, worker.url)
            for i, model in enumerate(self.models)
            for j, worker in enumerate(model.workers)
        ]
        found = repeated(names) + ambiguous(workers)
        found += unknown_models(self.routes, [model.name for model in self.models])
        found += repeated([(("teams", i, "name"), team.name) for i, team in enumerate(self.teams)])
        found += repeated(
            [
                (("teams", i, "keys", j, "id"), key.id)
                for i, team in enumerate(self.teams)
                for j, key in enumerate(team.keys)
            ]
        )
        found += repeated([(("admin", "keys", i, "id"), key.id) for i, key in enumerate(self.admin.keys)])
        found += faults_of_issuers(self.identity.issuers, has_admin_keys=bool(self.admin.keys))
        found += unknown_guardrails(self.guardrails, self.models, self.teams, region=self.bedrock.region)
        found += faults_of_named_rules(self.limit_templates, self.model_groups, self.teams, self.identity.issuers)
        if self.bedrock.region is None:
            found.extend(
                Contradiction((*place, "region"), "is required. Set it, or bedrock.region, or AWS_REGION")
                for place, bedrock in self._bedrocks()
                if bedrock.region is None
            )
        if self.kv_events.bind is None:
            text = "is required, because kv_events.bind is not set"
            found.extend(
                Contradiction((*place, "kv_events", "endpoint"), text)
                for place, events in self._events()
                if events.endpoint is None
            )
        elif not self.kv_events.allowed_cidrs and not is_local_zmq(self.kv_events.bind):
            text = (
                "is required, because other machines can reach kv_events.bind. List the networks of engines, "
                "e.g. 10.0.0.0/8"
            )
            found.append(Contradiction(("kv_events", "allowed_cidrs"), text))
        if self.routing.lease_s < self.timeouts.total_s:
            text = "is shorter than timeouts.total_s, so a long answer would lose its reservation on its worker"
            found.append(Contradiction(("routing", "lease_s"), text))
        if self.console.enabled and not self.admin.keys:
            text = "needs an admin key, with which people log in. Configure admin.keys"
            found.append(Contradiction(("console", "enabled"), text))
        found.extend(self._of_files())
        if not self.models:
            found.append(Contradiction(("models",), "is empty. Configure at least one model"))
        return unless_contradictory(self, found)

    def _of_files(self) -> Iterator[Contradiction]:
        places = [name for name in ("folder", "s3") if getattr(self.files, name) is not None]
        if len(places) > 1:
            text = "cannot be combined with files.folder, because contents have one place. Remove one of them"
            yield Contradiction(("files", "s3"), text)
        if places and self.store.url is None:
            text = "needs a store, because the properties of files must outlast a restart. Set store.url"
            yield Contradiction(("files", places[0]), text)

    def _events(self) -> Iterator[tuple[Place, WorkerEventsSettings]]:
        for i, model in enumerate(self.models):
            for j, worker in enumerate(model.workers):
                place = ("models", i, "workers", j)
                if worker.kv_events is not None:
                    yield place, worker.kv_events
                for k, instance in enumerate(worker.dynamo.instances if worker.dynamo is not None else ()):
                    if instance.kv_events is not None:
                        yield (*place, "dynamo", "instances", k), instance.kv_events

    def _bedrocks(self) -> Iterator[tuple[Place, ModelBedrockSettings]]:
        for i, model in enumerate(self.models):
            for j, fallback in enumerate(model.fallbacks):
                if fallback.bedrock is not None:
                    yield ("models", i, "fallbacks", j, "bedrock"), fallback.bedrock

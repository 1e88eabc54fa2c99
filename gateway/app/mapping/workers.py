"""Conversion of settings to the specifications of workers and their discovery."""

from collections.abc import Iterable
from pathlib import Path

from gateway.settings import (
    DnsSettings,
    DynamoSettings,
    InferencePoolSettings,
    KubernetesSettings,
    ModelSettings,
    PodsSettings,
    ServiceSettings,
    Settings,
    SettingsError,
    WorkerEventsSettings,
    WorkerSettings,
    workers_in,
)
from gateway.settings.rules import SQLITE
from gateway.workers.discovery.dns import DnsSource
from gateway.workers.discovery.endpoints import ServiceSource
from gateway.workers.discovery.file import FileSource, read_workers
from gateway.workers.discovery.inference_pool import PoolSource
from gateway.workers.discovery.pods import PodsSource
from gateway.workers.discovery.source import SourceSpec, WorkerSource
from gateway.workers.kubernetes.access import IN_CLUSTER, ApiAccess
from gateway.workers.kubernetes.reflector import ReflectorIntervals
from gateway.workers.replicas.replicas import HubPlace, ReplicaRules, Sharing, sharing_by
from gateway.workers.worker_spec import DynamoSpec, EventsSpec, InstanceSpec, ModelWorkers, WorkersError, WorkerSpec


def model_workers(models: Iterable[ModelSettings]) -> tuple[ModelWorkers, ...]:
    """Return *models* with the workers that the settings list."""
    return tuple(
        ModelWorkers(
            model.name,
            model.upstream_model,
            tuple(map(worker_spec, model.workers)),
            is_disaggregated=model.disaggregation is not None,
            is_searched_for=any(
                place is not None for place in (model.service, model.pods, model.inference_pool, model.dns)
            ),
        )
        for model in models
    )


def worker_spec(worker: WorkerSettings) -> WorkerSpec:
    return WorkerSpec(
        url=worker.url,
        id=worker.id,
        api_key=None if worker.api_key is None else worker.api_key.get_secret_value(),
        tier=worker.tier,
        role=worker.role,
        bootstrap_port=worker.bootstrap_port,
        pull_port=worker.pull_port,
        draining=worker.draining,
        max_connections=worker.max_connections,
        kv_events=_events(worker.kv_events),
        zone=worker.zone,
        uid=worker.uid,
        ranks=worker.ranks,
        dynamo=None if worker.dynamo is None else _dynamo(worker.dynamo),
    )


def sources_of(model: ModelSettings) -> tuple[WorkerSource, ...]:
    """Return the worker discovery sources of *model*. If two sources find the same address, the first source wins."""
    places: tuple[SourceSpec | None, ...] = (
        None if model.workers_file is None else FileSource(model.workers_file),
        None if model.service is None else _service(model.service),
        None if model.pods is None else _pods(model.pods),
        None if model.inference_pool is None else _inference_pool(model.inference_pool),
        None if model.dns is None else _dns(model.dns),
    )
    return tuple(WorkerSource(model.name, where) for where in places if where is not None)


def check_source(source: WorkerSource) -> None:
    """Check the worker file of *source* if it exists. Sources of other types cannot be checked in advance.

    Raises:
        WorkersError: with a sentence for every error in the file.
    """
    if isinstance(source.where, FileSource) and (path := Path(source.where.path)).exists():
        read_workers(path, parsed_workers)


def parsed_workers(content: bytes, path: Path) -> tuple[WorkerSpec, ...]:
    """Parse *content*, the content of the worker file *path*, and return its workers.

    Raises:
        WorkersError: with a sentence for every error found.
    """
    try:
        return tuple(map(worker_spec, workers_in(content, path)))
    except SettingsError as fault:
        raise WorkersError(fault.sentences) from None


def access_of(kubernetes: KubernetesSettings) -> ApiAccess:
    """Return the address and credentials of the Kubernetes API."""
    return ApiAccess(
        kubernetes.api_url or IN_CLUSTER,
        token_file=None if kubernetes.token_file is None else Path(kubernetes.token_file),
        ca_file=None if kubernetes.ca_file is None else Path(kubernetes.ca_file),
        namespace=kubernetes.namespace,
    )


def pace_of(kubernetes: KubernetesSettings) -> ReflectorIntervals:
    """Return the intervals for listing and watching Kubernetes objects."""
    return ReflectorIntervals(relist_s=kubernetes.relist_s, watch_s=kubernetes.watch_s)


def sharing_of(settings: Settings, hub: HubPlace | None = None) -> Sharing | None:
    """Return the options for sharing state with other replicas, or None without Redis or if sharing is disabled.

    *hub* connects a process with the other processes of the gateway, if they do not share their state through Redis.
    """
    url, replicas = settings.store.url or "", settings.replicas
    if not replicas.share or (hub is None and (not url or url.startswith(SQLITE))):
        return None
    return sharing_by(
        ReplicaRules(
            url=url,
            timeout_s=settings.store.timeout_s,
            group=replicas.group,
            tie_s=settings.advanced.replica_tie_s,
            heartbeat_s=replicas.heartbeat_s,
            dead_after_s=replicas.dead_after_s,
            hub=hub,
        )
    )


def _events(events: WorkerEventsSettings | None) -> EventsSpec | None:
    if events is None:
        return None
    return EventsSpec(events.endpoint, events.replay_endpoint, events.topic, events.ranks)


def _dynamo(dynamo: DynamoSettings) -> DynamoSpec:
    return DynamoSpec(
        instances=tuple(InstanceSpec(each.id, _events(each.kv_events)) for each in dynamo.instances),
        namespace=dynamo.namespace,
        component=dynamo.component,
        kv_events_port=dynamo.kv_events_port,
        kv_replay_port=dynamo.kv_replay_port,
        streams=tuple(filter(None, map(_events, dynamo.streams))),
    )


def _service(service: ServiceSettings) -> ServiceSource:
    return ServiceSource(service.name, service.namespace, service.port, service.role, service.ranks)


def _pods(pods: PodsSettings) -> PodsSource:
    return PodsSource(pods.selector, pods.namespace, pods.port)


def _inference_pool(pool: InferencePoolSettings) -> PoolSource:
    return PoolSource(pool.name, pool.namespace, pool.objectives, pool.rewrites)


def _dns(dns: DnsSettings) -> DnsSource:
    return DnsSource(dns.name, dns.port, dns.interval_s, dns.role, dns.ranks)

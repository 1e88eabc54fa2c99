"""Convert Kubernetes pods and their annotations into workers, without any I/O."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final

from gateway.workers.discovery.discovery import Discovery
from gateway.workers.discovery.endpoints import pod_id
from gateway.workers.discovery.found import Found, one_per_address, url_of
from gateway.workers.discovery.kubernetes import KubernetesDiscovery
from gateway.workers.discovery.source import DiscoveryTools, OnRefused, WorkerSource
from gateway.workers.kubernetes.collection import pods_with
from gateway.workers.kubernetes.objects import ContainerPort, Pod
from gateway.workers.kv_events.sources import endpoint_at
from gateway.workers.worker_spec import EventsSpec, Role, WorkerSpec

EVENTS_PORT: Final = "warmgate/kv-events-port"
"""Annotation for the port at which the first data-parallel rank publishes KV events."""
REPLAY_PORT: Final = "warmgate/kv-replay-port"
RANKS: Final = "warmgate/dp-size"
"""Annotation for the number of data-parallel ranks, as in `models[].workers[].ranks`. 0 means: query the engine."""
TIER: Final = "warmgate/tier"
BOOTSTRAP_PORT: Final = "warmgate/bootstrap-port"
"""Annotation for the port at which decode workers connect to a prefill worker of SGLang."""
PULL_PORT: Final = "warmgate/pull-port"
"""Annotation for the port at which other workers pull blocks from the worker's host memory."""
ROLE: Final = "warmgate/role"
_PORTS: Final = (1, 65535)
_BOUNDS: Final = {
    EVENTS_PORT: _PORTS,
    REPLAY_PORT: _PORTS,
    BOOTSTRAP_PORT: _PORTS,
    PULL_PORT: _PORTS,
    RANKS: (0, 1024),
    TIER: (0, 99),
}
"""Minimum and maximum value of each numeric annotation. Without an annotation, a label with the same name is used."""

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
"""Label for the zone of a node. Newer Kubernetes versions copy it to pods. With older ones, zones require a Service."""


@dataclass(frozen=True, slots=True)
class PodsSource:
    """Kubernetes pods with the labels in *selector*, each of which is a worker."""

    kind: ClassVar[str] = "pods"
    selector: str
    namespace: str | None = None
    port: str | None = None
    """Name or number of the container port. None selects the only port of the pod."""

    def discovery(self, source: WorkerSource, tools: DiscoveryTools, on_refused: OnRefused) -> Discovery:
        return KubernetesDiscovery(
            source,
            partial(tools.reflector, pods_with(self.selector, self.namespace)),
            partial(workers_among, wanted=self),
            discovery_status=tools.discovery_status,
            on_refused=on_refused,
        )


def workers_among(pods: Sequence[Pod], wanted: PodsSource) -> Found:
    """Return the pods that have an address and have not ended. Pods that are not ready, or are terminating, drain."""

    def ports(pod: Pod) -> tuple[int, ...] | str:
        port = _port(pod, wanted.port)
        return port if isinstance(port, str) else (port,)

    return workers_at(pods, ports, wanted.namespace)


def workers_at(pods: Sequence[Pod], ports_of: Callable[[Pod], tuple[int, ...] | str], namespace: str | None) -> Found:
    """Return a worker for each port of each pod that has an address and has not ended.

    *ports_of* returns the ports of a pod that serve the model, or a message that says why the pod has none. Several
    ports are data-parallel ranks, in the order of the ports. *namespace* is the namespace that the settings name.
    """
    workers: list[WorkerSpec] = []
    sentences: list[str] = []
    for pod in pods:
        # An evicted pod is there without an address; one that has ended may still have one.
        if not pod.status.pod_ip or pod.status.phase in ("Succeeded", "Failed"):
            continue
        ports = ports_of(pod)
        if isinstance(ports, str):
            sentences.append(f"pod {pod.metadata.name}: {ports}.")
            continue
        annotations = _Annotations(pod)
        workers += _workers(pod, pod.status.pod_ip, ports, annotations, namespace)
        sentences += dict.fromkeys(annotations.sentences)
    return Found(one_per_address(workers), tuple(sorted(sentences)))


def _workers(
    pod: Pod, address: str, ports: tuple[int, ...], annotations: "_Annotations", namespace: str | None
) -> Iterator[WorkerSpec]:
    name, ranks = pod_id(pod.metadata.name, namespace), annotations.number(RANKS, 1)
    worker = WorkerSpec(
        url=url_of(address, ports[0]),
        id=name,
        uid=pod.metadata.uid or None,
        zone=(pod.metadata.labels or {}).get(ZONE_LABEL) or None,
        tier=annotations.number(TIER, 0),
        role=annotations.role(),
        bootstrap_port=annotations.number(BOOTSTRAP_PORT, 0) or None,
        pull_port=annotations.number(PULL_PORT, 0) or None,
        draining=pod.metadata.deletion_timestamp is not None or not _is_ready(pod),
        ranks=ranks,
        kv_events=_events(annotations, address, max(1, ranks)),
    )
    if len(ports) == 1:
        yield worker
        return
    for rank, port in enumerate(ports):
        yield replace(
            worker,
            url=url_of(address, port),
            id=f"{name}-rank-{rank}",
            ranks=1,
            kv_events=_events(annotations, address, 1, rank),
        )


def _events(annotations: "_Annotations", address: str, ranks: int, first_rank: int = 0) -> EventsSpec | None:
    """Return the KV event endpoints in the annotations of a pod, or None if the engine must be queried for them.

    Each rank publishes at the port after that of the rank before it. *first_rank* is the first of the *ranks* ranks.
    """
    port, replay_port = annotations.number(EVENTS_PORT, 0), annotations.number(REPLAY_PORT, 0)
    if not port:
        return None
    replay = endpoint_at(address, replay_port + first_rank) if replay_port else None
    return EventsSpec(endpoint=endpoint_at(address, port + first_rank), replay_endpoint=replay, ranks=ranks)


def _is_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions or ())


def _port(pod: Pod, wanted: str | None) -> int | str:
    """Return the port named *wanted*, or a message that says why the port is missing."""
    if wanted is not None and wanted.isdecimal():
        return int(wanted)  # a container may listen where it does not say so
    known = list(_ports(pod))
    if wanted is None:
        if len(known) == 1:
            return known[0].container_port
        return "it has several ports; set the one to use" if known else "it has no port"
    fitting = [port.container_port for port in known if port.name == wanted]
    return fitting[0] if fitting else f"it has no port {wanted}"


def _ports(pod: Pod) -> Iterator[ContainerPort]:
    for container in pod.spec.containers or ():
        yield from (port for port in container.ports or () if port.protocol == "TCP")


class _Annotations:
    """Reader for the annotations and labels of a pod. It ignores invalid values and collects messages about them."""

    def __init__(self, pod: Pod) -> None:
        self._name = pod.metadata.name
        self._given: Mapping[str, str] = {**(pod.metadata.labels or {}), **(pod.metadata.annotations or {})}
        self.sentences: list[str] = []

    def role(self) -> Role:
        """Return the role of the worker. If the annotation is missing or invalid, return ``both``."""
        match self._given.get(ROLE, "both"):
            case "prefill" | "decode" | "both" as role:
                return role
            case _:
                self.sentences.append(f"pod {self._name}: {ROLE} must be prefill, decode or both.")
                return "both"

    def number(self, name: str, default: int) -> int:
        text = self._given.get(name)
        if text is None:
            return default
        least, most = _BOUNDS[name]
        if text.isascii() and text.isdecimal() and len(text) <= 5 and least <= int(text) <= most:
            return int(text)
        self.sentences.append(f"pod {self._name}: {name} must be a number from {least} to {most}.")
        return default

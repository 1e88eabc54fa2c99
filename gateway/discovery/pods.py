"""Workers as pods tell of them, with what their annotations say; no I/O."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gateway.discovery.endpoints import pod_id
from gateway.discovery.found import Found, one_per_address, url_of
from gateway.kubernetes.objects import ContainerPort, Pod
from gateway.kv_events.sources import endpoint_at
from gateway.settings import PodsSettings, WorkerEventsSettings, WorkerSettings
from gateway.settings.disaggregation import RoleName

EVENTS_PORT: Final = "warmgate/kv-events-port"
"""Where its engine publishes what it does to its cache, of the first rank."""
REPLAY_PORT: Final = "warmgate/kv-replay-port"
RANKS: Final = "warmgate/dp-size"
"""Data-parallel ranks, as `models[].workers[].ranks`; 0: its engine is asked."""
TIER: Final = "warmgate/tier"
BOOTSTRAP_PORT: Final = "warmgate/bootstrap-port"
"""Where decode workers meet a prefill worker of SGLang."""
ROLE: Final = "warmgate/role"
_PORTS: Final = (1, 65535)
_BOUNDS: Final = {EVENTS_PORT: _PORTS, REPLAY_PORT: _PORTS, BOOTSTRAP_PORT: _PORTS, RANKS: (0, 1024), TIER: (0, 99)}
"""Annotations or, where there is no annotation, labels."""

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
"""Copied from the node to its pods by newer clusters; who needs zones on others names the Service."""


def workers_among(pods: Sequence[Pod], wanted: PodsSettings) -> Found:
    """Those that have an address and have not ended; who is not ready, or is to end, drains."""
    workers: list[WorkerSettings] = []
    sentences: list[str] = []
    for pod in pods:
        # An evicted pod is there without an address; one that has ended may still have one.
        if not pod.status.pod_ip or pod.status.phase in ("Succeeded", "Failed"):
            continue
        port = _port(pod, wanted.port)
        if isinstance(port, str):
            sentences.append(f"pod {pod.metadata.name}: {port}.")
            continue
        told = _Annotations(pod)
        workers.append(_worker(pod, pod.status.pod_ip, port, told, wanted))
        sentences += told.sentences
    return Found(one_per_address(workers), tuple(sorted(sentences)))


def _worker(pod: Pod, address: str, port: int, told: "_Annotations", wanted: PodsSettings) -> WorkerSettings:
    ranks = told.number(RANKS, 1)
    return WorkerSettings(
        url=url_of(address, port),
        id=pod_id(pod.metadata.name, wanted.namespace),
        uid=pod.metadata.uid or None,
        zone=(pod.metadata.labels or {}).get(ZONE_LABEL) or None,
        tier=told.number(TIER, 0),
        role=told.role(),
        bootstrap_port=told.number(BOOTSTRAP_PORT, 0) or None,
        draining=pod.metadata.deletion_timestamp is not None or not _is_ready(pod),
        ranks=ranks,
        kv_events=_events(told, address, max(1, ranks)),
    )


def _events(told: "_Annotations", address: str, ranks: int) -> WorkerEventsSettings | None:
    """None: the engine is asked."""
    port, replay_port = told.number(EVENTS_PORT, 0), told.number(REPLAY_PORT, 0)
    if not port:
        return None
    replay = endpoint_at(address, replay_port) if replay_port else None
    return WorkerEventsSettings(endpoint=endpoint_at(address, port), replay_endpoint=replay, ranks=ranks)


def _is_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions or ())


def _port(pod: Pod, wanted: str | None) -> int | str:
    """The one that is *wanted*, or why there is none."""
    if wanted is not None and wanted.isdecimal():
        return int(wanted)  # a container may listen where it does not say so
    known = list(_ports(pod))
    if wanted is None:
        if len(known) == 1:
            return known[0].container_port
        return "it has several ports, and none is named" if known else "it names no port"
    fitting = [port.container_port for port in known if port.name == wanted]
    return fitting[0] if fitting else f"it has no port {wanted}"


def _ports(pod: Pod) -> Iterator[ContainerPort]:
    for container in pod.spec.containers or ():
        yield from (port for port in container.ports or () if port.protocol == "TCP")


class _Annotations:
    """Numbers of one pod, and what is wrong with them: one that is no good counts as not given."""

    def __init__(self, pod: Pod) -> None:
        self._name = pod.metadata.name
        self._given: Mapping[str, str] = {**(pod.metadata.labels or {}), **(pod.metadata.annotations or {})}
        self.sentences: list[str] = []

    def role(self) -> RoleName:
        """What it does; one that is no role counts as not given."""
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

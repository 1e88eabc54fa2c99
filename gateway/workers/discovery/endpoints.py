"""Convert the EndpointSlices of a Kubernetes Service into workers, without any I/O.

For conditions, ports and zones see https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from gateway.protocol.worker_address import id_of_address
from gateway.workers.discovery.discovery import Discovery
from gateway.workers.discovery.found import Found, one_per_address, url_of
from gateway.workers.discovery.kubernetes import KubernetesDiscovery
from gateway.workers.discovery.source import DiscoveryTools, OnRefused, WorkerSource
from gateway.workers.kubernetes.collection import slices_of
from gateway.workers.kubernetes.objects import EndpointSlice, Port, SliceEndpoint
from gateway.workers.worker_spec import Role, WorkerSpec


@dataclass(frozen=True, slots=True)
class ServiceSource:
    """Kubernetes Service whose endpoints are workers."""

    kind: ClassVar[str] = "service"
    name: str
    namespace: str | None = None
    port: str | None = None
    """Name or number of the port. None selects the only port of the Service."""
    role: Role = "both"
    ranks: int = 1

    def discovery(self, source: WorkerSource, tools: DiscoveryTools, on_refused: OnRefused) -> Discovery:
        return KubernetesDiscovery(
            source,
            partial(tools.reflector, slices_of(self.name, self.namespace)),
            partial(workers_of, service=self),
            discovery_status=tools.discovery_status,
            on_refused=on_refused,
        )


def workers_of(slices: Sequence[EndpointSlice], service: ServiceSource) -> Found:
    """Return the workers in *slices*, which are all EndpointSlices of the Service.

    A worker drains if its endpoint is not ready or is terminating: it gets no new requests, but its state is kept until
    the endpoint disappears. If a pod has an IPv4 and an IPv6 address, the IPv4 address is used.
    """
    workers: list[WorkerSpec] = []
    sentences: list[str] = []
    pods: set[str] = set()
    for family in ("IPv4", "IPv6"):
        of_family: list[WorkerSpec] = []
        for each in slices:
            if each.address_type == family and each.endpoints:
                port = _port(each.ports, service.port)
                if isinstance(port, str):
                    sentences.append(f"service {service.name}: {port}, see its EndpointSlice {each.metadata.name}.")
                else:
                    of_family += _workers(each.endpoints, port, service)
        workers += [worker for worker in of_family if worker.uid not in pods]
        pods |= {worker.uid for worker in of_family if worker.uid is not None}
    return Found(one_per_address(workers), tuple(sorted(sentences)))


def _port(ports: Sequence[Port] | None, wanted: str | None) -> Port | str:
    """Return the port named *wanted*, or a message that says why the port is missing."""
    if wanted is not None and wanted.isdecimal() and not ports:
        return Port(port=int(wanted))  # a slice without ports stands for all of them
    known = [port for port in ports or () if port.port is not None and port.protocol in (None, "TCP")]
    if wanted is None:
        if len(known) == 1:
            return known[0]
        return "it has several ports; set the one to use" if known else "it has no port"
    fitting = [port for port in known if wanted in (port.name, str(port.port))]
    return fitting[0] if fitting else f"it has no port {wanted}"


def _workers(endpoints: Sequence[SliceEndpoint], port: Port, service: ServiceSource) -> Iterator[WorkerSpec]:
    for endpoint in endpoints:
        if not endpoint.addresses:
            continue
        scheme = "https" if (port.app_protocol or "").lower() in ("https", "kubernetes.io/https") else "http"
        # All addresses of an endpoint are alike: by the API only the first is to be used.
        url = url_of(endpoint.addresses[0], port.port or 0, scheme)
        target, conditions = endpoint.target_ref, endpoint.conditions
        is_pod = target is not None and target.kind == "Pod" and bool(target.name)
        yield WorkerSpec(
            url=url,
            id=pod_id(target.name, service.namespace) if target is not None and is_pod else id_of_address(url),
            uid=(target.uid or None) if target is not None else None,
            zone=endpoint.zone or None,
            role=service.role,
            draining=conditions.ready is False or conditions.terminating is True,
            ranks=service.ranks,
        )


def pod_id(name: str, namespace: str | None) -> str:
    """Return the worker id of a pod: its name, with a namespace prefix if the settings name a namespace."""
    return name if namespace is None else f"{namespace}/{name}"

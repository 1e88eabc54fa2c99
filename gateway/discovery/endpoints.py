"""Workers as the EndpointSlices of a Service have them; no I/O.

What conditions, ports and zones mean: https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/
"""

from collections.abc import Iterator, Sequence

from gateway.discovery.found import Found, one_per_address, url_of
from gateway.kubernetes.objects import Endpoint, EndpointSlice, Port
from gateway.settings import ServiceSettings, WorkerSettings
from gateway.settings.rules import id_of_address


def workers_of(slices: Sequence[EndpointSlice], service: ServiceSettings) -> Found:
    """All endpoints of *slices*, which are the whole of them.

    One that is not ready, or is terminating, drains: it gets no requests, and what is known of it is kept until it is
    gone. Of a pod that has an address of each family the IPv4 one counts.
    """
    workers: list[WorkerSettings] = []
    sentences: list[str] = []
    pods: set[str] = set()
    for family in ("IPv4", "IPv6"):
        of_family: list[WorkerSettings] = []
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
    """The one that is *wanted*, or why there is none."""
    if wanted is not None and wanted.isdecimal() and not ports:
        return Port(port=int(wanted))  # a slice without ports stands for all of them
    known = [port for port in ports or () if port.port is not None and port.protocol in (None, "TCP")]
    if wanted is None:
        if len(known) == 1:
            return known[0]
        return "it has several ports, and none is named" if known else "it has no port"
    fitting = [port for port in known if wanted in (port.name, str(port.port))]
    return fitting[0] if fitting else f"it has no port {wanted}"


def _workers(endpoints: Sequence[Endpoint], port: Port, service: ServiceSettings) -> Iterator[WorkerSettings]:
    for endpoint in endpoints:
        if not endpoint.addresses:
            continue
        scheme = "https" if (port.app_protocol or "").lower() in ("https", "kubernetes.io/https") else "http"
        # All addresses of an endpoint are alike: by the API only the first is to be used.
        url = url_of(endpoint.addresses[0], port.port or 0, scheme)
        target, conditions = endpoint.target_ref, endpoint.conditions
        is_pod = target is not None and target.kind == "Pod" and bool(target.name)
        yield WorkerSettings(
            url=url,
            id=pod_id(target.name, service.namespace) if target is not None and is_pod else id_of_address(url),
            uid=(target.uid or None) if target is not None else None,
            zone=endpoint.zone or None,
            role=service.role,
            draining=conditions.ready is False or conditions.terminating is True,
            ranks=service.ranks,
        )


def pod_id(name: str, namespace: str | None) -> str:
    """The id of the worker in a pod: its name, behind the namespace where the settings name one."""
    return name if namespace is None else f"{namespace}/{name}"

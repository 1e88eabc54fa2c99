"""Collections of the API server: objects of one kind, in one namespace, by their labels."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from gateway.workers.kubernetes.objects import EndpointSlice, Object, Pod

ObjectT = TypeVar("ObjectT", bound=Object)

SERVICE_LABEL = "kubernetes.io/service-name"
"""Label of an EndpointSlice that names its Service."""


@dataclass(frozen=True, slots=True)
class Collection(Generic[ObjectT]):
    kind: type[ObjectT]
    group: str
    """Path of its API, as ``api/v1``."""
    resource: str
    """Name in paths: ``pods``."""
    selector: str
    namespace: str | None
    """Namespace; None: the gateway's own."""

    def path(self, namespace: str) -> str:
        return f"/{self.group}/namespaces/{namespace}/{self.resource}"


def slices_of(service: str, namespace: str | None) -> Collection[EndpointSlice]:
    """Return the EndpointSlices of a Service as a collection."""
    selector = f"{SERVICE_LABEL}={service}"
    return Collection(EndpointSlice, "apis/discovery.k8s.io/v1", "endpointslices", selector, namespace)


def pods_with(selector: str, namespace: str | None) -> Collection[Pod]:
    """Return the pods with these labels as a collection."""
    return Collection(Pod, "api/v1", "pods", selector, namespace)

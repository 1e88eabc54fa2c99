"""Collections of Kubernetes objects, selected by kind, namespace and labels."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from gateway.workers.kubernetes.objects import EndpointSlice, Object, Pod

ObjectT = TypeVar("ObjectT", bound=Object)

SERVICE_LABEL = "kubernetes.io/service-name"
"""Label of an EndpointSlice that contains the name of its Service."""


@dataclass(frozen=True, slots=True)
class Collection(Generic[ObjectT]):
    kind: type[ObjectT]
    group: str
    """API path of the resource type, such as ``api/v1``."""
    resource: str
    """Name of the resource type in API paths, such as ``pods``."""
    selector: str
    namespace: str | None
    """Kubernetes namespace of the objects. None selects the namespace of the gateway."""

    def path(self, namespace: str) -> str:
        return f"/{self.group}/namespaces/{namespace}/{self.resource}"


def slices_of(service: str, namespace: str | None) -> Collection[EndpointSlice]:
    """Return the collection of the EndpointSlices that belong to the Service *service*."""
    selector = f"{SERVICE_LABEL}={service}"
    return Collection(EndpointSlice, "apis/discovery.k8s.io/v1", "endpointslices", selector, namespace)


def pods_with(selector: str, namespace: str | None) -> Collection[Pod]:
    """Return the collection of pods whose labels match *selector*."""
    return Collection(Pod, "api/v1", "pods", selector, namespace)

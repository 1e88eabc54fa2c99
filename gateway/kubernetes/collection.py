"""What is asked of the API server: objects of one kind, in one namespace, by their labels."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from gateway.kubernetes.objects import EndpointSlice, Object, Pod

ObjectT = TypeVar("ObjectT", bound=Object)

SERVICE_LABEL = "kubernetes.io/service-name"
"""The label of an EndpointSlice that names its Service."""


@dataclass(frozen=True, slots=True)
class Collection(Generic[ObjectT]):
    kind: type[ObjectT]
    group: str
    """Path of its API, as ``api/v1``."""
    resource: str
    """As paths have it: ``pods``."""
    selector: str
    namespace: str | None
    """None: the gateway's own."""

    def path(self, namespace: str) -> str:
        return f"/{self.group}/namespaces/{namespace}/{self.resource}"


def slices_of(service: str, namespace: str | None) -> Collection[EndpointSlice]:
    """The EndpointSlices of a Service."""
    selector = f"{SERVICE_LABEL}={service}"
    return Collection(EndpointSlice, "apis/discovery.k8s.io/v1", "endpointslices", selector, namespace)


def pods_with(selector: str, namespace: str | None) -> Collection[Pod]:
    """Pods by their labels."""
    return Collection(Pod, "api/v1", "pods", selector, namespace)

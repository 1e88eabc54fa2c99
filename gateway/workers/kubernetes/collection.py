"""Collections of Kubernetes objects, selected by kind, namespace and labels."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from gateway.workers.kubernetes.objects import (
    EndpointSlice,
    InferenceModelRewrite,
    InferenceObjective,
    InferencePool,
    Object,
    Pod,
)

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
    name: str | None = None
    """Name of the only object in the collection. None means that the collection is not limited to one name."""

    def path(self, namespace: str) -> str:
        return f"/{self.group}/namespaces/{namespace}/{self.resource}"

    def query(self) -> dict[str, str]:
        """Return the query parameters that select the objects of the collection."""
        labels = {"labelSelector": self.selector} if self.selector else {}
        return labels if self.name is None else labels | {"fieldSelector": f"metadata.name={self.name}"}


def slices_of(service: str, namespace: str | None) -> Collection[EndpointSlice]:
    """Return the collection of the EndpointSlices that belong to the Service *service*."""
    selector = f"{SERVICE_LABEL}={service}"
    return Collection(EndpointSlice, "apis/discovery.k8s.io/v1", "endpointslices", selector, namespace)


def pods_with(selector: str, namespace: str | None) -> Collection[Pod]:
    """Return the collection of pods whose labels match *selector*."""
    return Collection(Pod, "api/v1", "pods", selector, namespace)


def pool_named(name: str, namespace: str | None) -> Collection[InferencePool]:
    """Return the collection that contains only the InferencePool *name*, or nothing if the pool does not exist."""
    return Collection(InferencePool, "apis/inference.networking.k8s.io/v1", "inferencepools", "", namespace, name)


def objectives_in(namespace: str | None) -> Collection[InferenceObjective]:
    """Return the collection of all InferenceObjectives in *namespace*."""
    return Collection(InferenceObjective, "apis/llm-d.ai/v1alpha2", "inferenceobjectives", "", namespace)


def rewrites_in(namespace: str | None) -> Collection[InferenceModelRewrite]:
    """Return the collection of all InferenceModelRewrites in *namespace*."""
    return Collection(InferenceModelRewrite, "apis/llm-d.ai/v1alpha2", "inferencemodelrewrites", "", namespace)

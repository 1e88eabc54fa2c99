"""Collections of the API server."""

from gateway.workers.kubernetes.collection import pods_with, pool_named, slices_of
from gateway.workers.kubernetes.objects import EndpointSlice, Pod


def test_slices_are_those_of_a_service() -> None:
    """Their controller sets this label."""
    collection = slices_of("vllm", None)

    assert (EndpointSlice, "kubernetes.io/service-name=vllm") == (collection.kind, collection.selector)
    assert "/apis/discovery.k8s.io/v1/namespaces/models/endpointslices" == collection.path("models")


def test_pods_are_selected_by_labels() -> None:
    collection = pods_with("app=vllm", "models")

    assert (Pod, "app=vllm", "models") == (collection.kind, collection.selector, collection.namespace)
    assert "/api/v1/namespaces/models/pods" == collection.path("models")


def test_a_pool_is_selected_by_its_name() -> None:
    collection = pool_named("llama", None)

    assert {"fieldSelector": "metadata.name=llama"} == collection.query()
    assert {"labelSelector": "app=vllm"} == pods_with("app=vllm", None).query()
    assert "/apis/inference.networking.k8s.io/v1/namespaces/models/inferencepools" == collection.path("models")

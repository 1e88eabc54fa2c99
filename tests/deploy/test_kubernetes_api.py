"""The fake API server of the tests, read by a client that others wrote (kubernetes_asyncio)."""

from collections.abc import AsyncIterator

import pytest
from kubernetes_asyncio import client, watch

from tests.kubernetes_api import KubernetesApi, a_pod, a_slice, an_endpoint, kubernetes_api


@pytest.fixture
async def api() -> AsyncIterator[KubernetesApi]:
    async with kubernetes_api(a_slice("s", an_endpoint("10.0.0.1", "a", zone="z1")), a_pod("a", "10.0.0.1")) as api:
        yield api


async def test_its_lists_are_understood(api: KubernetesApi) -> None:
    """With what a worker is made from."""
    async with client.ApiClient(client.Configuration(host=api.url)) as connection:
        slices = await client.DiscoveryV1Api(connection).list_namespaced_endpoint_slice(
            "default", label_selector="kubernetes.io/service-name=vllm"
        )
        pods = await client.CoreV1Api(connection).list_namespaced_pod("default", label_selector="app=vllm", limit=1)

    (endpoint,) = slices.items[0].endpoints
    assert (["10.0.0.1"], "a", "z1", True) == (
        *(endpoint.addresses, endpoint.target_ref.name, endpoint.zone, endpoint.conditions.ready),
    )
    assert [("a", "10.0.0.1", "Running")] == [
        (pod.metadata.name, pod.status.pod_ip, pod.status.phase) for pod in pods.items
    ]


async def test_its_watches_are_understood(api: KubernetesApi) -> None:
    """Each change as it comes."""
    seen = []
    async with client.ApiClient(client.Configuration(host=api.url)) as connection:
        lists = client.CoreV1Api(connection).list_namespaced_pod
        version = (await lists("default")).metadata.resource_version
        async with watch.Watch().stream(lists, "default", resource_version=version, timeout_seconds=10) as events:
            api.put(a_pod("b", "10.0.0.2"))
            api.delete("Pod", "b")
            async for event in events:
                seen.append((event["type"], event["object"].metadata.name))
                if len(seen) == 2:
                    break

    assert [("ADDED", "b"), ("DELETED", "b")] == seen

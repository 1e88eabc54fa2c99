"""The fake API server is one to those who know the real ones: kubectl, and a client that others wrote."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.kubernetes_api import KubernetesApi, a_pod, a_slice, an_endpoint, kubernetes_api

KUBECTL = shutil.which("kubectl")
with_kubectl = pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine")


@pytest.fixture
async def api() -> AsyncIterator[KubernetesApi]:
    slices = a_slice("vllm-1", an_endpoint("10.0.0.1", "a", zone="z1")), a_slice("other-1", service="other")
    async with kubernetes_api(*slices, a_pod("a", "10.0.0.1")) as api:
        yield api


async def kubectl(api: KubernetesApi, folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    assert KUBECTL is not None
    return await asyncio.create_subprocess_exec(
        *(KUBECTL, "--server", api.url, "--cache-dir", str(folder / "cache"), "--kubeconfig", "/dev/null"),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
    )


async def said(api: KubernetesApi, folder: Path, *arguments: str) -> str:
    process = await kubectl(api, folder, *arguments)
    stdout, _ = await asyncio.wait_for(process.communicate(), 30)
    assert 0 == process.returncode
    return stdout.decode()


@with_kubectl
@pytest.mark.e2e
async def test_kubectl_lists_it(api: KubernetesApi, tmp_path: Path) -> None:
    api.put(a_slice("vllm-2"))
    of_service = ("get", "endpointslices", "-o", "name", "-l", "kubernetes.io/service-name=vllm", "--chunk-size=1")
    slices, address = await asyncio.gather(
        said(api, tmp_path, *of_service),
        said(api, tmp_path, "get", "pod", "a", "-o", "jsonpath={.status.podIP}"),
    )

    assert ["endpointslice.discovery.k8s.io/vllm-1", "endpointslice.discovery.k8s.io/vllm-2"] == slices.split()
    assert "10.0.0.1" == address


@with_kubectl
@pytest.mark.e2e
async def test_kubectl_watches_it(api: KubernetesApi, tmp_path: Path) -> None:
    """What is there, then each change as it comes."""
    process = await kubectl(
        api,
        tmp_path,
        "get",
        "pods",
        "--watch",
        "--output-watch-events",
        "-o",
        "jsonpath={.type} {.object.metadata.name}\n",
    )
    assert process.stdout is not None
    seen = []
    async with asyncio.timeout(30):
        seen.append(await process.stdout.readline())
        api.put(a_pod("b", "10.0.0.2"))
        seen.append(await process.stdout.readline())
        api.put(a_pod("b", "10.0.0.2", deleted=True))
        seen.append(await process.stdout.readline())
        api.delete("Pod", "b")
        seen.append(await process.stdout.readline())
    process.kill()
    await process.communicate()

    assert [b"ADDED a\n", b"ADDED b\n", b"MODIFIED b\n", b"DELETED b\n"] == seen


async def test_a_version_that_is_gone_is_reported_either_way(api: KubernetesApi) -> None:
    api.compact()
    path = "/api/v1/namespaces/default/pods?watch=true&resourceVersion=100"
    async with httpx.AsyncClient(base_url=api.url, timeout=60, verify=False) as client:
        line = await client.get(path)
        api.faults.expired_as = "http"
        status = await client.get(path)

    assert (200, "ERROR", 410) == (line.status_code, line.json()["type"], line.json()["object"]["code"])
    assert 410 == status.status_code


async def test_a_watch_goes_on_from_its_version_and_ends_in_time(api: KubernetesApi) -> None:
    """With bookmarks, where those are wanted."""
    path = "/api/v1/namespaces/default/pods?watch=true&timeoutSeconds=0.3&allowWatchBookmarks=true&resourceVersion=100"
    async with httpx.AsyncClient(base_url=api.url, timeout=60, verify=False) as client:
        lines = [json.loads(line) for line in (await client.get(path)).text.splitlines()]

    assert ("ADDED", "a") == (lines[0]["type"], lines[0]["object"]["metadata"]["name"])
    assert {"BOOKMARK"} == {line["type"] for line in lines[1:]}

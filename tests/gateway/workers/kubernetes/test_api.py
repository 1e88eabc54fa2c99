"""Our client for the API of Kubernetes, before a server on a real socket."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from gateway.workers.kubernetes.access import ApiAccess
from gateway.workers.kubernetes.api import Change, HttpApi
from gateway.workers.kubernetes.collection import pods_with, slices_of
from gateway.workers.kubernetes.kubernetes_error import KubernetesError, VersionExpired
from tests.gateway.server.harness import free_port
from tests.kubernetes_api import KubernetesApi, a_pod, a_slice, an_endpoint, kubernetes_api

PODS = pods_with("app=vllm", "default")
Reported = list[list[tuple[Change, str]]]


@pytest.fixture
async def server() -> AsyncIterator[KubernetesApi]:
    async with kubernetes_api(*(a_pod(name, f"10.0.0.{i}") for i, name in enumerate("abc"))) as server:
        yield server


def api(server: KubernetesApi, **more: float) -> HttpApi:
    return HttpApi(ApiAccess(server.url, service_account=Path("/nowhere")), page=int(more.pop("page", 500)), **more)


async def reported(
    server: KubernetesApi, version: str, *, lasts_s: float = 10, silence_s: float = 10, batches: int = 99
) -> Reported:
    """What a watch reports in so many *batches*, by change and name, until its end; without bookmarks."""
    found: Reported = []
    async with aclosing(api(server).watch(PODS, version, lasts_s=lasts_s, silence_s=silence_s)) as events:
        async for batch in events:
            named = [(each.change, each.object.metadata.name) for each in batch if each.object is not None]
            found += [named] if named else []
            if len(found) == batches:
                break
    return found


# ---- lists


@pytest.mark.parametrize("page", [1, 2, 3, 500])
async def test_a_list_is_the_whole_of_it_at_one_version(server: KubernetesApi, page: int) -> None:
    """Page by page, however many there are."""
    listed = await api(server, page=page).list_all(PODS)

    assert (["a", "b", "c"], "103") == ([each.metadata.name for each in listed.objects], listed.version)
    assert max(1, -(-3 // page)) == server.count(watches=False)


async def test_only_what_is_selected_is_listed(server: KubernetesApi) -> None:
    """Label, kind and namespace select."""
    server.put(a_pod("other", "10.0.0.9", labels={"app": "web"}))
    server.put(a_pod("far", "10.0.0.9"), namespace="far")
    server.put(a_slice("s", an_endpoint("10.0.0.1", "a", zone="z1")))
    server.put(a_slice("t", service="other"))
    pods = await api(server).list_all(PODS)
    (one,) = (await api(server).list_all(slices_of("vllm", "default"))).objects

    assert ["a", "b", "c"] == [each.metadata.name for each in pods.objects]
    assert ["10.0.0.1"] == [endpoint.addresses[0] for endpoint in one.endpoints or () if endpoint.addresses]


async def test_an_empty_list_is_no_fault(server: KubernetesApi) -> None:
    assert () == (await api(server).list_all(slices_of("vllm", "default"))).objects


async def test_the_token_of_this_moment_is_sent(server: KubernetesApi, tmp_path: Path) -> None:
    """401 after a rotation is over as soon as the file has the new one."""
    token = tmp_path / "token"
    token.write_text("t-1")
    client = HttpApi(ApiAccess(server.url, token_file=token))
    server.token = "t-1"
    await client.list_all(PODS)
    server.token = "t-2"
    with pytest.raises(KubernetesError, match="the API server returned status 401"):
        await client.list_all(PODS)
    token.write_text("t-2")

    assert 3 == len((await client.list_all(PODS)).objects)


async def test_the_server_is_known_by_its_certificate(
    certificate: tuple[Path, Path], another_certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    """Another certificate is refused."""
    cert, key = certificate
    token = tmp_path / "token"
    token.write_text("t-1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    async with kubernetes_api(a_pod("a", "10.0.0.1"), tls=context) as server:
        server.token = "t-1"
        known = ApiAccess(server.url, token_file=token, ca_file=cert)
        assert 1 == len((await HttpApi(known).list_all(PODS)).objects)

        context.load_cert_chain(*another_certificate)
        with pytest.raises(KubernetesError, match="the connection failed"):
            await HttpApi(known).list_all(PODS)


async def test_the_gateways_own_namespace_counts_where_none_is_named(server: KubernetesApi, tmp_path: Path) -> None:
    """Without one, nothing is guessed."""
    mine = pods_with("app=vllm", None)
    (tmp_path / "namespace").write_text("default\n")

    assert 3 == len((await HttpApi(ApiAccess(server.url, service_account=tmp_path)).list_all(mine)).objects)
    with pytest.raises(KubernetesError, match=r"set kubernetes\.namespace"):
        await api(server).list_all(mine)


async def test_a_server_that_wants_to_be_left_alone_says_for_how_long(server: KubernetesApi) -> None:
    """Where it says so in seconds."""
    server.faults.refused = [(429, "7"), (503, "Wed, 21 Oct 2026 07:28:00 GMT"), (500, None)]
    said = []
    for _ in range(3):
        with pytest.raises(KubernetesError) as raised:
            await api(server).list_all(PODS)
        said.append((raised.value.status, raised.value.retry_after_s))

    assert [(429, 7.0), (503, None), (500, None)] == said


async def test_a_list_that_expires_half_way_is_reported(server: KubernetesApi) -> None:
    """Then it is to be begun again."""
    server.faults.refused = []

    async def forget() -> None:
        while server.count(watches=False) < 1:
            await asyncio.sleep(0)
        server.faults.refused = [(410, None)]

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(forget())
        with pytest.raises(VersionExpired):
            await api(server, page=1).list_all(PODS)


async def test_no_one_is_waited_for_without_an_end(server: KubernetesApi) -> None:
    """A list that hangs, a watch that is not answered, an address at which no one is."""
    server.faults.hung_lists = True
    with pytest.raises(KubernetesError, match=r"listing Kubernetes objects took longer than 0\.05 s"):
        await api(server, list_s=0.05).list_all(PODS)
    with pytest.raises(KubernetesError, match="the connection failed"):
        await HttpApi(ApiAccess(f"http://127.0.0.1:{free_port()}")).list_all(PODS)


async def test_what_cannot_be_understood_is_reported(server: KubernetesApi) -> None:
    """Without any of it."""
    server.put({"metadata": {"name": "odd", "labels": {"app": "vllm"}}, "status": "secret"})
    with pytest.raises(KubernetesError, match=r"^the response of the Kubernetes API is malformed$"):
        await api(server).list_all(PODS)


# ---- watches


async def test_a_watch_reports_what_came_after_its_version(server: KubernetesApi) -> None:
    """Changes that arrive together are in one list."""
    version = (await api(server).list_all(PODS)).version
    server.put(a_pod("d", "10.0.0.4"))
    server.put(a_pod("a", "10.0.0.1", deleted=True))
    server.delete("Pod", "b")
    batches = await reported(server, version, lasts_s=0.3)

    assert [("ADDED", "d"), ("MODIFIED", "a"), ("DELETED", "b")] == [each for batch in batches for each in batch]


async def test_a_watch_ends_in_its_time(server: KubernetesApi) -> None:
    """Also one that the server forgets to end."""
    assert [] == await reported(server, "103", lasts_s=0.2)
    server.faults.hung_watches = True
    assert [] == await reported(server, "103", lasts_s=0.2)


async def test_bookmarks_are_asked_for_and_change_nothing(server: KubernetesApi) -> None:
    """They only tell that somebody is there."""
    async with aclosing(api(server).watch(PODS, "103", lasts_s=10, silence_s=10)) as events:
        (event,) = await anext(events)

    assert ("BOOKMARK", None) == (event.change, event.object)


async def test_a_watch_that_is_silent_for_too_long_is_dead(server: KubernetesApi) -> None:
    """A connection that is half open says nothing, not even its end."""
    server.faults.hung_watches = True
    with pytest.raises(KubernetesError, match=r"the Kubernetes watch was silent for 0\.1 s"):
        await reported(server, "103", silence_s=0.1)


@pytest.mark.parametrize("expired_as", ["http", "line"])
async def test_a_version_that_is_gone_is_reported(server: KubernetesApi, expired_as: str) -> None:
    """The status of the answer says so, or a line of it."""
    server.faults.expired_as = "http" if expired_as == "http" else "line"
    server.compact()
    with pytest.raises(VersionExpired):
        await reported(server, "103")


async def test_half_a_line_counts_for_nothing(server: KubernetesApi) -> None:
    """The end of the connection is the end of the watch: anyone who watches lists again."""
    server.faults.cut_line = True
    server.put(a_pod("d", "10.0.0.4"))

    assert [] == await reported(server, "103")


async def test_a_connection_that_is_cut_is_reported(server: KubernetesApi) -> None:
    async with aclosing(api(server).watch(PODS, "103", lasts_s=10, silence_s=10)) as events:
        await anext(events)
        server.drop_watches()
        with pytest.raises(KubernetesError, match="the connection failed"):
            [batch async for batch in events]


async def test_a_refused_watch_is_reported(server: KubernetesApi) -> None:
    server.faults.refused = [(403, None)]
    with pytest.raises(KubernetesError, match="the API server returned status 403"):
        await reported(server, "103")

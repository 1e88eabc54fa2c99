"""The gateway in a process of its own, before simulated workers that an API server of Kubernetes reports, or does not.

Each worker has an address of its own on the loopback network and all have one port, as pods have. While something goes
wrong, clients ask without a pause: none of them may notice.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulator.server import serving
from tests.e2e.gateway_process import GatewayProcess, gateway_process
from tests.e2e.stack import quick
from tests.gateway.server.harness import free_port
from tests.kubernetes_api import KubernetesApi, a_slice, an_endpoint, kubernetes_api

ADMIN = {"authorization": "Bearer t-1"}
RELIST_S = 0.1
"""30 s by default: what takes 10 minutes there takes 2 s here."""


@dataclass
class Pods:
    """Simulated workers, as processes in pods; who runs is not who Kubernetes says runs."""

    port: int
    running: dict[str, AsyncExitStack] = field(default_factory=dict)

    async def start(self, address: str) -> None:
        self.running[address] = AsyncExitStack()
        await self.running[address].enter_async_context(serving(quick(host=address, port=self.port)))

    async def stop(self, address: str) -> None:
        await self.running.pop(address).aclose()


@dataclass
class Clients:
    statuses: Counter[int] = field(default_factory=Counter)
    workers: list[str] = field(default_factory=list)
    """Return who answered, in order, the requests that began after the last call: what was on its way
    before may come from a worker that has been sent none since.
    """


@dataclass
class Cluster:
    api: KubernetesApi
    pods: Pods
    gateway: GatewayProcess

    def tell(self, *endpoints: dict[str, Any], name: str = "vllm-1") -> None:
        """The whole of a slice."""
        self.api.put(a_slice(name, *endpoints, ports=[{"name": "http", "port": self.pods.port}]))

    async def cards(self) -> dict[str, dict[str, Any]]:
        listed = (await self.gateway.http.get("/admin/v1/workers", headers=ADMIN)).json()["workers"]
        return {each["worker"]: each for each in listed}

    async def until(self, **states: str) -> dict[str, dict[str, Any]]:
        """Wait until these are the workers, by id, and their states."""
        async with asyncio.timeout(60):
            while True:
                cards = await self.cards()
                if {name: card["state"] for name, card in cards.items()} == states:
                    return cards
                await asyncio.sleep(0.01)

    async def drains(self, worker: str, *, drains: bool) -> dict[str, Any]:
        """Wait until *worker* does, or does not; its card."""
        async with asyncio.timeout(60):
            while (card := (await self.cards())[worker])["draining"] != drains:
                await asyncio.sleep(0.01)
        return card

    async def ready(self) -> tuple[int, dict[str, Any]]:
        """The status of ``/readyz``, and what it reports the service."""
        response = await self.gateway.http.get("/readyz")
        return response.status_code, response.json()["discovery"]["tiny"]["service"]

    @asynccontextmanager
    async def asked(self) -> AsyncIterator[Clients]:
        """Inside, clients ask without a pause; at the end all of them have been answered well."""
        clients, is_over = Clients(), asyncio.Event()

        async def ask(number: int) -> None:
            turn = 0
            while not is_over.is_set():
                turn += 1
                prompt = f"{number}-{turn % 5} " * 20
                body = {"model": "tiny", "messages": [{"role": "user", "content": prompt}], "max_tokens": 2}
                workers = clients.workers
                response = await self.gateway.http.post("/v1/chat/completions", json=body)
                clients.statuses[response.status_code] += 1
                workers.append(response.headers.get("x-warmgate-worker", ""))
                await asyncio.sleep(0.02)

        async with asyncio.TaskGroup() as tasks:
            for number in range(3):
                tasks.create_task(ask(number))
            yield clients
            is_over.set()
        assert {200} == set(clients.statuses)

    async def answered(self, clients: Clients, requests: int = 20) -> list[str]:
        """Wait for the answers to so many requests that begin from now on; who gave them."""
        clients.workers = []
        async with asyncio.timeout(60):
            while len(clients.workers) < requests:
                await asyncio.sleep(0.01)
        return clients.workers


def pod(name: str, number: int, **more: Any) -> dict[str, Any]:
    return an_endpoint(address(number), name, **more)


def address(number: int) -> str:
    return f"127.0.7.{number}"


@asynccontextmanager
async def cluster(folder: Path, *, relist_s: float = RELIST_S, away: bool = False) -> AsyncIterator[Cluster]:
    """Two pods, a and b, that run; with the API server *away* at first."""
    async with AsyncExitStack() as exits:
        api = await exits.enter_async_context(kubernetes_api(token="t-k8s"))
        pods = Pods(free_port())
        exits.push_async_callback(stop_all, pods)
        for number in (1, 2):
            await pods.start(address(number))
        token = folder / "token"
        token.write_text("t-k8s\n")
        settings = {
            "server": {"port": 0},
            "admin": {"keys": [{"role": "operator", "secret": "t-1"}]},
            "models": [{"name": "tiny", "strategy": "round_robin", "service": {"name": "vllm", "port": "http"}}],
            "kubernetes": {
                "api_url": api.url,
                "token_file": str(token),
                "namespace": "default",
                "relist_s": relist_s,
            },
            "health": {"interval_s": 0.1, "timeout_s": 5, "metrics_interval_s": 1},
        }
        api.put(a_slice("vllm-1", pod("a", 1, zone="z1"), pod("b", 2), ports=[{"name": "http", "port": pods.port}]))
        if away:
            await api.go_away()
        started = await exits.enter_async_context(gateway_process(folder, settings))
        made = Cluster(api, pods, started)
        if not away:
            await made.until(a="up", b="up")
        yield made


async def stop_all(pods: Pods) -> None:
    for running in [*pods.running]:
        with contextlib.suppress(OSError):
            await pods.stop(running)


async def test_pods_come_and_go_and_no_request_is_lost(tmp_path: Path) -> None:
    """One is called ready before it is, one ends in peace, another gets its address, slices are split and merged."""
    # A list every 30 s: all of this is reported by the watch.
    async with cluster(tmp_path, relist_s=300) as there, there.asked() as clients:
        there.tell(pod("a", 1), pod("b", 2), pod("c", 3))
        await there.until(a="up", b="up", c="down")
        assert "c" not in await there.answered(clients)
        await there.pods.start(address(3))
        await there.until(a="up", b="up", c="up")
        assert {"a", "b", "c"} == set(await there.answered(clients))

        there.tell(pod("a", 1), pod("b", 2, terminating=True), pod("c", 3))
        await there.until(a="up", b="drained", c="up")
        assert {"a", "c"} == set(await there.answered(clients))
        await there.pods.stop(address(2))
        there.tell(pod("a", 1), pod("c", 3))
        await there.until(a="up", c="up")

        # Its name and its address at once, as a StatefulSet may have it; what was known of c counts no more.
        assert (await there.cards())["c"]["held_blocks"] > 0
        there.tell(pod("a", 1), pod("c", 3, ready=False), pod("d", 2))
        await there.until(a="up", c="drained", d="down")
        await there.pods.start(address(2))
        await there.until(a="up", c="drained", d="up")
        await there.pods.stop(address(3))
        there.tell(pod("a", 1), pod("d", 2), pod("c", 3, uid="another"))
        card = await there.drains("c", drains=False)
        assert (False, 0) == (card["up"], card["held_blocks"])
        await there.pods.start(address(3))
        await there.until(a="up", c="up", d="up")

        held = (await there.cards())["a"]["held_blocks"]
        assert held > 0
        lists = there.api.count(watches=False)
        there.tell(pod("d", 2), pod("c", 3, uid="another"))  # a is nowhere, for a moment
        there.tell(pod("a", 1), name="vllm-2")
        async with asyncio.timeout(60):
            while there.api.count(watches=False) == lists:
                await asyncio.sleep(0.01)
        cards = await there.until(a="up", c="up", d="up")
        assert cards["a"]["held_blocks"] >= held
        assert {"a", "c", "d"} == set(await there.answered(clients))


async def test_a_pod_whose_end_was_never_reported_gets_no_requests_for_long(tmp_path: Path) -> None:
    """production-stack #1091: a DELETE that is lost between two watches kept a dead pod for 22 hours.

    Here it goes with the next list, after `relist_s` and the time of that list at the most, whatever watches say; and
    until then no one notices.
    """
    async with cluster(tmp_path, relist_s=1.0) as there, there.asked() as clients:
        loop = asyncio.get_running_loop()
        there.api.faults.lost = {"MODIFIED", "DELETED"}
        await there.pods.stop(address(2))
        there.tell(pod("a", 1))
        gone_at = loop.time()
        await there.until(a="up")
        took_s = loop.time() - gone_at
        assert {"a"} == set(await there.answered(clients))
        assert took_s < 60  # of a machine that has other things to do

        # The same with a watch that is open, and says nothing at all.
        there.api.faults.hung_watches = True
        there.api.drop_watches()
        await there.pods.start(address(4))
        there.tell(pod("a", 1), pod("e", 4))
        await there.until(a="up", e="up")
        assert {"a", "e"} == set(await there.answered(clients))


async def test_no_one_notices_that_the_api_server_is_away_for_ten_minutes(tmp_path: Path) -> None:
    """The gateway that starts meanwhile is not ready before it has come back; the one that runs goes on with what it
    knows, and says how old that is. Ten minutes are 20 times `relist_s`.
    """
    async with cluster(tmp_path, away=True) as there:
        status, reported = await there.ready()
        assert (503, False, 0) == (status, reported["synced"], reported["workers"])
        assert "connection failed" in reported["fault"]
        await there.api.come_back()
        await there.until(a="up", b="up")
        assert 200 == (await there.ready())[0]

        async with there.asked() as clients:
            await there.api.go_away()
            async with asyncio.timeout(60):
                while (await there.ready())[1]["age_s"] < 20 * RELIST_S:
                    await asyncio.sleep(0.05)
            status, reported = await there.ready()
            assert (200, 2) == (status, reported["workers"])
            assert {"a", "b"} == set(await there.answered(clients))
            labels = '{model="tiny",source="service"}'
            assert await there.gateway.metric(f"warmgate_discovery_age_seconds{labels}") >= 20 * RELIST_S
            assert await there.gateway.metric(f"warmgate_discovery_failures_total{labels}") > 0

            there.tell(pod("a", 1))  # what happened meanwhile
            await there.api.come_back()
            await there.until(a="up")
            assert {"a"} == set(await there.answered(clients))
            assert "fault" not in (await there.ready())[1]

"""A real Prometheus that scrapes what a test runs, with the alerts that ship, and what it answers."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml

from tests.deploy.rules import groups
from tests.deploy.tools import tool
from tests.storage import free_port

T = TypeVar("T")

SCRAPE_S = 1
PATIENCE_S = 90.0
"""On a machine that others use as well."""


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    targets: Sequence[str]
    """Hosts with ports."""
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Prometheus:
    """One that runs."""

    http: httpx.AsyncClient

    async def ask(self, query: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series that *query* has at this moment."""
        found = await self._get("query", query=query)
        return [(each["metric"], float(each["value"][1])) for each in found["result"]]

    async def history(
        self, query: str, *, start: float, end: float, step_s: float
    ) -> list[tuple[dict[str, str], dict[float, float]]]:
        """Labels of each series of *query*, and its values by Unix time, from *start* to *end*."""
        found = await self._get("query_range", query=query, start=f"{start:.1f}", end=f"{end:.1f}", step=f"{step_s:g}")
        return [
            (each["metric"], {round(float(at), 1): float(value) for at, value in each["values"]})
            for each in found["result"]
        ]

    async def numbers(self, query: str) -> int:
        """Series of *query* that have a number: 0/0 is not one, and draws nothing."""
        return sum(math.isfinite(value) for _, value in await self.ask(query))

    async def values(self, label: str, series: str) -> list[str]:
        found: list[str] = await self._get(f"label/{label}/values", **{"match[]": series})
        return found

    async def rules(self) -> dict[str, dict[str, Any]]:
        found = await self._get("rules")
        return {rule["name"]: rule for group in found["groups"] for rule in group["rules"]}

    async def firing(self) -> set[str]:
        """Names of alerts that fire."""
        return {name for name, rule in (await self.rules()).items() if rule["state"] == "firing"}

    async def _get(self, path: str, **parameters: str) -> Any:
        answer = (await self.http.get(f"/api/v1/{path}", params=parameters)).json()
        assert answer["status"] == "success", answer
        return answer["data"]


@asynccontextmanager
async def prometheus(folder: Path, jobs: Sequence[Job]) -> AsyncIterator[Prometheus]:
    """Scrapes each second, and has the alerts that ship, with their expressions, and no time to wait for."""
    port = free_port()
    config = folder / "prometheus.yaml"
    config.write_text(yaml.safe_dump(_configuration(jobs)))
    (folder / "alerts.yaml").write_text(yaml.safe_dump({"groups": _at_once()}))
    command = [
        tool("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30, verify=False) as http:
            await until(lambda: _is_ready(http), bool)
            yield Prometheus(http)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def until(ask: Callable[[], Awaitable[T]], reached: Callable[[T], bool], *, within_s: float = PATIENCE_S) -> T:
    """What *ask* gives, once it is such; or what it gave last."""
    give_up_at = asyncio.get_running_loop().time() + within_s
    while not reached(found := await ask()) and asyncio.get_running_loop().time() < give_up_at:
        await asyncio.sleep(0.5)
    return found


async def _is_ready(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/-/ready")).status_code == 200
    except httpx.TransportError:
        return False


def _configuration(jobs: Sequence[Job]) -> dict[str, Any]:
    scraped = [
        {"job_name": job.name, "static_configs": [{"targets": list(job.targets), "labels": dict(job.labels)}]}
        for job in jobs
    ]
    times = {"scrape_interval": f"{SCRAPE_S}s", "scrape_timeout": f"{SCRAPE_S}s", "evaluation_interval": "1s"}
    return {"global": times, "scrape_configs": scraped, "rule_files": ["alerts.yaml"]}


def _at_once() -> list[dict[str, Any]]:
    """The groups that ship; an alert fires when its expression has held for a second."""
    return [{**group, "rules": [{**rule, "for": "1s"} for rule in group["rules"]]} for group in groups()]

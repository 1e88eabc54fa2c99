"""Gauges of a gateway's ``/metrics``, above all those that count work in progress and are 0 at rest."""

import asyncio
import re
import time
from collections.abc import Mapping

import httpx
from prometheus_client.parser import text_string_to_metric_families

UNDER_WAY = re.compile(r"in_flight|booked|backlog")
SETTLE_S = 10.0  # how long the gauges may take to come to rest

Gauge = tuple[str, Mapping[str, str], float]


async def gauges(url: str) -> list[Gauge]:
    """Return name, labels and value of each gauge of the gateway at *url*."""
    async with httpx.AsyncClient(timeout=10.0) as client:
        answer = await client.get(f"{url}/metrics")
    answer.raise_for_status()
    return [
        (reading.name, reading.labels, reading.value)
        for family in text_string_to_metric_families(answer.text)
        if family.type == "gauge"
        for reading in family.samples
    ]


async def work_under_way(url: str) -> dict[str, float]:
    """Return the gauges that count work in progress, by name and labels. Worker names are left out, because they
    contain ports.
    """
    found: dict[str, float] = {}
    for name, labels, value in await gauges(url):
        if UNDER_WAY.search(name):
            kept = ",".join(f"{key}={label}" for key, label in labels.items() if key != "worker")
            key = f"{name}{{{kept}}}" if kept else name
            found[key] = found.get(key, 0.0) + abs(value)
    return found


async def work_left(url: str) -> dict[str, float]:
    """Return the gauges of work in progress as soon as all are 0, or after `SETTLE_S` with their values then."""
    give_up_at = time.monotonic() + SETTLE_S
    found = await work_under_way(url)
    while any(found.values()) and time.monotonic() < give_up_at:
        await asyncio.sleep(0.1)
        found = await work_under_way(url)
    return found

"""Clients here do not verify TLS: there is not one, and loading certificates would be most of a test's time."""

from collections.abc import AsyncIterator

import httpx
import pytest

from simulator.options import SimulatorOptions
from simulator.server import serving


@pytest.fixture
async def worker() -> AsyncIterator[httpx.AsyncClient]:
    """A client of a worker that answers as fast as possible."""
    options = SimulatorOptions(port=0, speed=0, blocks=512)
    async with serving(options) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
        yield client


@pytest.fixture
async def slow_worker() -> AsyncIterator[httpx.AsyncClient]:
    """A client of a worker that takes a tenth of a second per token."""
    options = SimulatorOptions(port=0, tpot_ms=100, blocks=512)
    async with serving(options) as url, httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
        yield client

"""Workers that are known from the beginning; `tests/contracts/test_discovery.py` holds for them too."""

from gateway.workers.discovery.static import StaticDiscovery
from gateway.workers.worker_spec import WorkerSpec


async def test_the_set_comes_once() -> None:
    """Nothing can change it, so there is no more to wait for."""
    worker = WorkerSpec("http://a:1", "a")

    assert [(worker,)] == [workers async for workers in StaticDiscovery((worker,)).watch()]

"""Workers that are known from the beginning; `tests/contracts/test_discovery.py` holds for them too."""

from gateway.discovery.static import StaticDiscovery
from gateway.settings import WorkerSettings


async def test_the_set_comes_once() -> None:
    """Nothing can change it, so there is no more to wait for."""
    worker = WorkerSettings(url="http://a:1")

    assert [(worker,)] == [workers async for workers in StaticDiscovery((worker,)).watch()]

"""What holds for all tests: which of them `make e2e` runs, and how many examples property tests try."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.storage import durable_redis_server, redis_server, redis_servers

__all__ = ["durable_redis_server", "redis_server", "redis_servers"]

E2E = tuple(Path(__file__).parent / folder for folder in ("e2e", "security"))
"""Folders in which every test is one of `make e2e`, as if it were marked so."""

# Property tests take the time they need, and try the same examples on every run: `make fuzz` is where luck may decide.
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what stands in the folders of `E2E`, before marks decide what is run."""
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in E2E):
            item.add_marker(pytest.mark.e2e)

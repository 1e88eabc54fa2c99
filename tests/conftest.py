"""What holds for all tests: which of them `make e2e` runs, which may start processes, how many examples are tried."""

import gc
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.storage import durable_redis_server, redis_server, redis_servers

__all__ = ["durable_redis_server", "redis_server", "redis_servers"]

E2E = tuple(Path(__file__).parent / folder for folder in ("e2e", "security"))
"""Folders in which every test is one of `make e2e`, as if it were marked so."""
E2E_TIMEOUT_S = 240
"""Seconds after which a test that is not one of `make test` has failed, also on a machine that is very busy."""
COMMANDS = frozenset({"git", "openssl", "uname"})
"""Commands that every test may run: they end at once, and nothing is asked of them meanwhile."""

# Property tests take the time they need, and try the same examples on every run: `make fuzz` is where luck may decide.
settings.register_profile(
    "steady", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what stands in the folders of `E2E`, before marks decide what is run, and give such tests more time."""
    for item in items:
        if _stands_in(item.path, E2E):
            item.add_marker(pytest.mark.e2e)
        is_slow = _may_take_long(item)
        is_limited = item.get_closest_marker("timeout") or float(item.config.getini("timeout")) > E2E_TIMEOUT_S
        if is_slow and not is_limited:
            item.add_marker(pytest.mark.timeout(E2E_TIMEOUT_S))


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Collect no garbage while tests are loaded: there is hardly any."""
    if isinstance(collector, pytest.Session):
        gc.disable()


def pytest_collection_finish() -> None:
    """Exempt the modules and tests that were loaded from garbage collection: no test frees them, and to look at all of
    them takes half a second each time.
    """
    gc.enable()
    gc.collect()
    gc.freeze()


class ProcessGuard:
    """Fails a test that starts a process and is not marked for it: `make test` has to pass on busy machines."""

    def __init__(self) -> None:
        self._test: str | None = None
        sys.addaudithook(self._heard)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._test = None if _may_take_long(item) else item.nodeid
        try:
            return (yield)
        finally:
            self._test = None

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._test is None or event not in {"subprocess.Popen", "os.fork", "os.posix_spawn"}:
            return
        program = Path(str(arguments[0])).name if arguments else "a fork"
        if program not in COMMANDS:
            pytest.fail(f"{self._test} starts a process ({program}): mark it e2e")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ProcessGuard())


def _may_take_long(item: pytest.Item) -> bool:
    """It may start processes and wait for real time."""
    return any(item.get_closest_marker(name) for name in ("e2e", "redis")) or _has_own_target(item)


def _has_own_target(item: pytest.Item) -> bool:
    """It stands in a folder that plain `pytest` leaves out."""
    folders = item.config.getini("norecursedirs")
    return _stands_in(item.path, tuple(item.config.rootpath / folder for folder in folders))


@cache
def _stands_in(path: Path, folders: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)

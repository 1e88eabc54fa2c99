"""The demo with load, a browser, and sessions of people with different roles, for all tests of the console."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.console import people
from tests.console.batches import new_batch
from tests.console.browser import Faults, chromium
from tests.console.load import load
from tests.console.processes import Running, admin_keys_variable, demo


@pytest.fixture(scope="session")
def served() -> Iterator[Running]:
    """The demo with three workers, and with the teams demo and blue."""
    with demo(environ={**admin_keys_variable(), "WARMGATE_DRAIN__HAND_OVER_AFTER_S": "1"}) as running:
        running.admin("POST", "/teams", {"name": "blue", "limits": {"requests_per_minute": 100_000, "usd_per_day": 50}})
        yield running


@pytest.fixture(scope="session")
def lonely() -> Iterator[Running]:
    """A demo of its own for attacks after which the address of this machine has to wait."""
    with demo(workers=1, environ=admin_keys_variable()) as running:
        yield running


@pytest.fixture(scope="session")
def busy(served: Running) -> Iterator[Running]:
    """The demo while clients send requests."""
    keys = {"demo": served.key, "blue": served.new_key("blue")}
    with load(served.url, keys) as running:
        running.wait_for(10)
        new_batch(served.url, keys["blue"], metadata={"purpose": "tests"})
        yield served


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright, chromium(playwright) as started:
        yield started


@pytest.fixture(scope="session")
def session(served: Running) -> Callable[[str], str]:
    """A function that returns the token of the session of an admin key."""
    tokens: dict[str, str] = {}

    def token(admin: str) -> str:
        if admin not in tokens:
            tokens[admin] = people.new_session(served, admin)
        return tokens[admin]

    return token


@pytest.fixture(scope="session")
def addresses(busy: Running, session: Callable[[str], str]) -> dict[str, str]:
    """An address of each page, by the path of the page."""
    return people.addresses(busy, session("olga"))


@pytest.fixture
def faults() -> Iterator[Faults]:
    """Faults of the pages that a test opens. The test fails if there are any."""
    watched = Faults()
    yield watched
    assert [] == watched.found

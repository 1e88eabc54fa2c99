"""Pages of a gateway with 500 workers, 2,000 keys and names of 80 characters."""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from gateway.console.all_pages import PAGES
from tests.console.browser import Faults, severe_findings
from tests.console.large import TEAM, WORKERS, large
from tests.console.people import addresses, client, new_session, window
from tests.console.processes import Running

PATHS = [page.path for page in PAGES]
PHONE = {"width": 390, "height": 844}
SLOWEST_S = 1.5
"""Seconds in which the server has to answer with any page, on a machine that does other work, too."""


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with large(tmp_path_factory.mktemp("large")) as running:
        yield running


@pytest.fixture(scope="module")
def token(crowded: Running) -> str:
    return new_session(crowded, "olga")


@pytest.fixture(scope="module")
def places(crowded: Running, token: str) -> dict[str, str]:
    return addresses(crowded, token)


@pytest.mark.parametrize("path", PATHS)
def test_a_page_of_a_large_gateway_fits(
    path: str, browser: Browser, crowded: Running, token: str, places: dict[str, str], faults: Faults
) -> None:
    """It opens soon, is accessible, and is no wider than a phone."""
    with client(crowded, token) as http:
        began = time.monotonic()
        assert 200 == http.get(places[path]).status_code
        taken_s = time.monotonic() - began
    with window(browser, crowded, token, faults=faults, viewport=PHONE) as page:
        page.goto(places[path])

        assert 390 == page.evaluate("() => Math.max(innerWidth, document.documentElement.scrollWidth)")
        assert [] == severe_findings(page)
    assert taken_s < SLOWEST_S


def test_all_workers_are_listed(browser: Browser, crowded: Running, token: str, faults: Faults) -> None:
    """No worker is left out silently."""
    with window(browser, crowded, token, faults=faults) as page:
        page.goto("/console/models")

        expect(page.locator("tbody th", has_text="worker-")).to_have_count(WORKERS - 1)


def test_all_keys_can_be_found(crowded: Running, token: str) -> None:
    """The pages of the keys of a team lead to each other."""
    found: set[str] = set()
    address: str | None = f"/console/teams/{TEAM}"
    with client(crowded, token) as http:
        while address is not None:
            text = http.get(address).text
            found |= {part.partition('"')[0] for part in text.split('href="/console/keys/')[1:]}
            further = text.partition('href="?after=')[2].partition('"')[0].replace("&amp;", "&")
            address = f"/console/teams/{TEAM}?after={further}" if further else None

    assert 2000 == len(found)

"""60 probes for stored and reflected scripts, wherever a caller or a worker can put a text: all are inert."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page

from gateway.console.all_pages import PAGES
from tests.console import people
from tests.console.batches import new_batch
from tests.console.browser import Faults
from tests.console.hostile_worker import hostile_worker
from tests.console.people import client, log_in, named, new_session, window
from tests.console.probes import INJECTED, PRINTABLE, PROBES, WITHOUT_SPACES
from tests.console.processes import Running
from tests.console.processes import served as serving

FILTERS = ("team", "model", "worker", "session", "status", "key", "since", "until", "q", "after", "by", "strategy")
"""Query parameters that pages may have."""
REPLAY = ("replay", "strategy-1", "workers-1", "cache-1", "users", "minutes")
"""Query parameters of the page What if."""
TEAM_KEY = "wg-declared-key-of-the-probes-5c2e1f"
MOST_ADDRESSES = 8
"""Number of addresses of the same page, such as the pages of single models, that are opened."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway whose models and workers are named by probes, with requests that contain them."""
    folder = tmp_path_factory.mktemp("hostile")
    with hostile_worker() as port, serving(folder, _settings(port, folder)) as running:
        with httpx.Client(base_url=running.url, timeout=60) as http:
            for number, probe in enumerate(PROBES):
                _ask(http, probe, _MODELS[number % len(_MODELS)])
        for start in range(0, len(PROBES), 15):
            new_batch(running.url, TEAM_KEY, metadata=_pairs(PROBES[start : start + 15]), file=_faulty(PROBES[start]))
        running.admin("POST", "/what-if", {"model": _MODELS[0], "alternatives": [{}]})
        yield running


_MODELS = PRINTABLE[:10]


def _settings(port: int, folder: Path) -> dict[str, object]:
    workers = iter(WITHOUT_SPACES * 10)
    addresses = (f"http://127.0.{number // 200}.{number % 200 + 1}:{port}" for number in range(10_000))
    models: list[dict[str, object]] = [
        {
            "name": name,
            "aliases": [PRINTABLE[10 + number]],
            "workers": [{"id": f"{worker}{number}", "url": next(addresses)} for worker in islice(workers, 5)],
            "price": {"input_usd": 1.0, "output_usd": 2.0},
        }
        for number, name in enumerate(_MODELS)
    ]
    adapters = [
        {"name": name, "adapter": {"of": _MODELS[0]}, "workers": models[0]["workers"]} for name in PRINTABLE[20:24]
    ]
    shares = [{"model": _MODELS[0], "weight": 1}, {"model": _MODELS[1], "weight": 1}]
    routes = [{"name": PRINTABLE[24], "to": shares}]
    teams = [{"name": "declared", "keys": [{"id": "declared", "secret": TEAM_KEY}]}]
    return {
        "models": [*models, *adapters],
        "routes": routes,
        "teams": teams,
        "request_shapes": {"enabled": True},
        "files": {"folder": str(folder / "files")},
    }


def _pairs(probes: Sequence[str]) -> dict[str, str]:
    return {f"{probe[:60]}{number}": probe[:512] for number, probe in enumerate(probes)}


def _faulty(probe: str) -> str:
    """Return an input file whose line has *probe* in fields that messages can repeat."""
    line = {"custom_id": probe, "method": probe, "url": probe, "body": {"model": probe, probe: probe}, probe: probe}
    return json.dumps(line) + "\n"


def _ask(http: httpx.Client, probe: str, model: str) -> None:
    """Send a request with *probe* in each place that a caller controls."""
    header = probe.replace("\t", " ")
    headers = {
        "authorization": f"Bearer {TEAM_KEY}",
        "x-session-id": header,
        "user-agent": header,
        "x-request-id": header,
        "x-warmgate-strategy": header,
    }
    body = {"model": model, "messages": [{"role": "user", "content": probe}], "user": probe, "metadata": {"x": probe}}
    http.post("/v1/chat/completions", json=body, headers=headers)
    http.post("/v1/chat/completions", json={**body, "model": probe}, headers=headers)
    http.get(f"/v1/{quote(probe, safe='')}", headers=headers)


def check(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_timeout(150)

    assert [] == page.evaluate(INJECTED)


def test_there_are_sixty_probes() -> None:
    assert 60 == len(set(PROBES))


def test_stored_probes_are_inert(hostile: Running, browser: Browser, faults: Faults) -> None:
    """Pages show names of models and workers, sessions, user agents and errors of callers as texts."""
    token = new_session(hostile, "olga")
    with window(browser, hostile, token, faults=faults) as page:
        for address in _all_addresses(hostile, token):
            check(page, address)


def test_live_parts_are_inert(hostile: Running, browser: Browser, faults: Faults) -> None:
    """Parts that arrive while a page is open are escaped as the page is."""
    token = new_session(hostile, "olga")
    with window(browser, hostile, token, faults=faults) as page:
        for address in [each.path for each in PAGES if each.live and "{" not in each.path]:
            page.goto(address)
            page.wait_for_timeout(2500)

            assert [] == page.evaluate(INJECTED)


def test_probes_in_addresses_are_inert(hostile: Running, browser: Browser, faults: Faults) -> None:
    """Filters and ids in the address of a page are shown as texts, or are refused."""
    token = new_session(hostile, "olga")
    addresses = [each.path for each in PAGES]
    with window(browser, hostile, token) as page:
        faults.watch_probes(page)
        for start in range(0, len(PROBES), len(FILTERS)):
            probes = PROBES[start:] + PROBES[:start]
            for address in addresses:
                names = REPLAY if address == "/console/what-if" else FILTERS
                check(page, f"{named(address, PROBES[start])}?{urlencode(dict(zip(names, probes, strict=False)))}")


def test_a_probe_in_the_login_is_inert(hostile: Running, browser: Browser, faults: Faults) -> None:
    """The page on which a person goes on after the login stands in the address."""
    with window(browser, hostile, faults=faults) as page:
        for probe in PROBES:
            page.goto(f"/console/login?{urlencode({'next': '/console?' + probe})}")

            assert [] == page.evaluate(INJECTED)


def test_a_probe_as_an_admin_key_is_not_repeated(hostile: Running) -> None:
    """The answer to a wrong key does not contain it."""
    with client(hostile) as http:
        texts = [log_in(http, probe).text for probe in PROBES[:12]]

    assert [] == [probe for probe, text in zip(PROBES, texts, strict=False) if probe in text]


def _all_addresses(running: Running, token: str) -> list[str]:
    """Follow all links, but only a few of each page whose address has variable parts."""
    seen: dict[str, int] = {}
    found: list[str] = []
    with client(running, token) as http:
        waiting = ["/console"]
        while waiting:
            address = waiting.pop(0)
            name = _page_of(urlsplit(address).path)
            if address in found or name is None or seen.get(name, 0) >= MOST_ADDRESSES:
                continue
            seen[name] = seen.get(name, 0) + 1
            found.append(address)
            links = [link for link in people.read(http, address).links if link.startswith(running.url + "/console")]
            waiting.extend(link.removeprefix(running.url) for link in links)
    return found


def _page_of(path: str) -> str | None:
    return next((name for name, pattern in people.patterns().items() if pattern.fullmatch(path)), None)

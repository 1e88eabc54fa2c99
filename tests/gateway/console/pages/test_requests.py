"""Facts about the pages with past requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gateway.api.admin_v1.parts import AdminGateway
from gateway.proxy.completed_requests import CompletedRequest
from gateway.telemetry.receipts.receipts import Receipts
from gateway.telemetry.receipts.ring import ReceiptRing
from tests.gateway.console.consoled import Browser, consoled
from tests.gateway.examples import Clock, a_draining, an_exchange, the_models
from tests.gateway.telemetry.receipts.examples import SECONDS_OF_2026, a_decision, answered


class Served:
    """A browser of a viewer, and a gateway that keeps receipts."""

    def __init__(self, browser: Browser, ring: ReceiptRing) -> None:
        self._browser = browser
        self._ring = ring

    def add(self, name: str, **known: Any) -> None:
        self._ring.observe([CompletedRequest(answered(request_id=name.encode(), **known), 102.0)])

    def refuse(self, name: str, **known: Any) -> None:
        """Add a request that was refused before any decision."""
        exchange = an_exchange(request_id=name.encode(), status=429, error="LimitReached", **known)
        self._ring.observe([CompletedRequest(exchange, 100.5)])

    async def text(self, path: str, *, status: int = 200) -> str:
        response = await self._browser.get(f"/console/requests{path}")
        assert status == response.status_code
        return response.text


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    ring = ReceiptRing(200, clock=Clock(), wall_clock=Clock(SECONDS_OF_2026))
    models = the_models()
    gateway = AdminGateway(models, list, draining=a_draining(models), receipts=Receipts(ring, lambda: None))
    async with consoled(gateway=gateway) as site:
        yield Served(await site.logged_in("vi"), ring)


async def test_the_list_shows_requests_and_links_to_each() -> None:
    async with served() as site:
        site.add("r-1", team="blue")
        text = await site.text("")

    assert '<a class="mono" href="/console/requests/r-1">r-1</a>' in text
    assert "<td>blue</td>" in text
    assert '<span class="state good">200</span>' in text
    assert "2026-01-01 00:00:00" in text


async def test_filters_are_in_the_address_and_in_the_form() -> None:
    async with served() as site:
        site.add("r-1", team="blue")
        site.add("r-2", team="red")
        text = await site.text("?team=red&status=2xx")

    assert 'href="/console/requests/r-2"' in text
    assert 'href="/console/requests/r-1"' not in text
    assert '<input id="team" name="team" value="red"' in text
    assert '<option value="2xx" selected>' in text


async def test_an_invalid_filter_is_explained_on_the_page() -> None:
    async with served() as site:
        site.add("r-1")
        text = await site.text("?min_duration_s=soon")

    assert '<p class="notice failed">' in text
    assert "min_duration_s" in text
    assert 'href="/console/requests/r-1"' not in text


async def test_long_lists_have_pages() -> None:
    """The second page has the two oldest requests."""
    async with served() as site:
        for number in range(52):
            site.add(f"r-{number}")
        first = await site.text("?team=blue")
        second = await site.text("?team=blue&after=2")

    assert '<a href="/console/requests?team=blue&amp;after=2">Earlier requests</a>' in first
    assert 'href="/console/requests/r-51"' in first
    assert 'href="/console/requests/r-1"' in second
    assert '<a href="/console/requests?team=blue">Latest requests</a>' in second
    assert "Earlier requests</a>" not in second


async def test_empty_lists_say_why() -> None:
    async with served() as site:
        assert "No requests have ended since this gateway started." in await site.text("")
        assert "No request matches the filters." in await site.text("?team=red")


async def test_one_request_shows_its_decision_and_its_life() -> None:
    async with served() as site:
        site.add("r-1", session=b"s-1", failures=(("c", "ConnectFailed"),), attempts=2)
        text = await site.text("/r-1")

    assert "chose <strong>a</strong>. No candidate had more of the prompt in its cache." in text
    assert "<td>higher cost</td>" in text
    assert '<li>c: <span class="state bad">ConnectFailed</span></li>' in text
    assert '<li>a: <span class="state good">answered</span></li>' in text
    assert '<th scope="row">prepare</th>' in text
    assert '<a href="/console/requests?session=s-1">s-1</a>' in text
    assert '<rect class="bar" x="75.0" y="0" width="25.0" height="3">' in text


async def test_a_request_that_was_refused_has_no_candidates() -> None:
    async with served() as site:
        site.refuse("r-1", refused_by="key/tokens_per_minute")
        text = await site.text("/r-1")

    assert "The request ended before a worker was chosen." in text
    assert "LimitReached by key/tokens_per_minute" in text
    assert "No backend was tried." in text


async def test_excluded_workers_and_unlisted_candidates_are_named() -> None:
    decision = a_decision()
    decision.excluded = [("c", "down")]
    async with served() as site:
        site.add("r-1", decision=decision, reason="none")
        text = await site.text("/r-1")

    assert "No worker could take the request." in text
    assert "<li>c: down</li>" in text


async def test_an_unknown_request_has_an_error_page() -> None:
    async with served() as site:
        assert "keeps no receipt" in await site.text("/r-9", status=404)


async def test_what_callers_send_is_escaped() -> None:
    """Ids and sessions come from callers."""
    probe = "<img/src=x>"
    async with served() as site:
        site.add('"><script>', session=probe.encode())
        listed = await site.text("")
        shown = await site.text("/%22%3E%3Cscript%3E")

    assert probe not in shown
    assert "&lt;img/src=x&gt;" in shown
    assert '"><script>' not in listed + shown


async def test_a_request_whose_id_contains_slashes_has_a_page() -> None:
    """Callers choose ids."""
    async with served() as site:
        for name in ("/jobs/7?a=1", "a/../b"):
            site.add(name, team="blue")
        text = await site.text("")
        pages = [await site.text(path) for path in ("//jobs/7%3Fa%3D1", "/%2Fjobs%2F7%3Fa%3D1", "/a%2F..%2Fb")]
        unknown = await site.text("/jobs/8", status=404)

    assert 'href="/console/requests/%2Fjobs%2F7%3Fa%3D1"' in text
    assert 'href="/console/requests/a%2F..%2Fb"' in text
    names = ("/jobs/7?a=1", "/jobs/7?a=1", "a/../b")
    for name, page in zip(names, pages, strict=True):
        assert f'Request <span class="mono">{name}</span>' in page
    assert "This gateway keeps no receipt of a request" in unknown

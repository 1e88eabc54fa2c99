"""Facts about the page with the cache map."""

from typing import Any

import pytest

from gateway.api.admin_v1.parts import AdminGateway
from gateway.console.pages.cache_map import LENGTH, cell, reuse_time, row
from gateway.protocol.usage import Usage
from gateway.telemetry.caches.prefix_words import PrefixWords
from tests.gateway.api.admin_v1.test_cache_map import a_gateway
from tests.gateway.console.consoled import consoled
from tests.gateway.examples import a_draining, the_models
from tests.gateway.telemetry.caches.examples import Observed
from tests.routing.examples import A, a_request, prompt


def an_observed(team: str = "blue") -> Observed:
    """Worker a holds the hot prefix of 6 blocks and has computed 256 tokens twice."""
    observed = Observed()
    observed.index.record(A, prompt("abcdef"))
    for _ in range(3):
        observed.activity.observe([observed.answered(a_request("abcdef"), team=team)])
    request = a_request("ABCDEFGHIJKLMNOP")
    observed.activity.observe([observed.answered(request)])
    observed.activity.observe([observed.answered(request, usage=Usage(256, 1, 0))])
    return observed


async def test_workers_and_prefixes_are_shown() -> None:
    async with consoled(gateway=a_gateway(an_observed())) as site:
        text = (await (await site.logged_in("vi")).get("/console/cache-map")).text

    assert '<a href="#prefix-1" title="' + prompt("abcdef").hashes[-8:].hex() + '">P1</a>' in text
    assert '<td class="number heat-5" title="100.0 %">96</td>' in text
    assert '<td class="number">about 96</td>' in text
    assert 5 == text.count(
        '<span class="visually-hidden">0</span>'
    )  # the long prompt was asked for twice, and is not held
    assert ">blue</span>" in text
    assert '<span class="state waiting">32.0 %</span>' in text


async def test_names_are_escaped() -> None:
    async with consoled(gateway=a_gateway(an_observed("<script>alert(1)</script>"))) as site:
        text = (await (await site.logged_in("vi")).get("/console/cache-map")).text

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text


async def test_words_are_shown_and_escaped() -> None:
    observed = Observed(words=PrefixWords(lambda team: True, block_bytes=64))
    text = '<script>alert(1)</script> is " not bold.'
    observed.activity.observe([observed.recorded(a_request("abcdef"), "blue", text)] * 3)
    async with consoled(gateway=a_gateway(observed)) as site:
        page = (await (await site.logged_in("vi")).get("/console/cache-map")).text

    escaped = "&lt;script&gt;alert(1)&lt;/script&gt; is &#34; not bold."
    assert f'<span class="words" title="{escaped}">{escaped}…</span>' in page
    assert f'title="{escaped}">P1</a>' in page
    assert "<script>alert" not in page


async def test_without_requests_there_are_no_prefixes() -> None:
    async with consoled(gateway=a_gateway(Observed())) as site:
        text = (await (await site.logged_in("vi")).get("/console/cache-map")).text

    assert "No beginning of a prompt was asked for several times lately." in text


async def test_without_an_observer_the_page_says_so() -> None:
    models = the_models(Observed().model)
    async with consoled(gateway=AdminGateway(models, tuple, draining=a_draining(models))) as site:
        browser = await site.logged_in("vi")
        texts = [(await browser.get(f"/console/{page}")).text for page in ("cache-map", "index-truth")]

    assert [True, True] == ["The setting admin.cache_activity enables it." in text for text in texts]


async def test_an_unknown_model_is_an_error_page() -> None:
    async with consoled(gateway=a_gateway(Observed())) as site:
        answer = await (await site.logged_in("vi")).get("/console/cache-map?model=x")

    assert (404, True) == (answer.status_code, "is not configured; give its name" in answer.text)


async def test_many_workers_come_in_pages() -> None:
    observed = Observed()
    workers = [type(A)(f"w{number:03d}") for number in range(LENGTH + 1)]
    observed.model.fleet.set_workers(workers, 0.0)
    observed.model.workers = dict.fromkeys(workers, observed.model.workers[A])
    observed.model._gauges._workers = observed.model.workers
    async with consoled(gateway=a_gateway(observed)) as site:
        browser = await site.logged_in("vi")
        first = (await browser.get("/console/cache-map")).text
        second = (await browser.get("/console/cache-map?model=tiny&after=w049")).text

    assert 'href="/console/cache-map?model=tiny&amp;after=w049">More workers</a>' in first
    assert ("w050" in second, "w049<" in second, "First workers" in second) == (True, False, True)


@pytest.mark.parametrize(
    ("tokens", "heat"), [(0, None), (1, 1), (16, 1), (32, 2), (48, 2), (64, 3), (80, 4), (96, 5), (99, 5)]
)
def test_a_cell_has_a_color_for_its_share(tokens: int, heat: int | None) -> None:
    held = {"prefix": "p", "tokens": tokens, "cpu_tokens": 0, "disk_tokens": 0, "shared_tokens": 0}
    found = cell({"tokens": 96}, held)

    assert heat == (None if found is None else found["heat"])


def test_tokens_that_are_not_on_the_gpu_are_counted() -> None:
    held = {"prefix": "p", "tokens": 96, "cpu_tokens": 16, "disk_tokens": 32, "shared_tokens": 16}
    found = cell({"tokens": 96}, held)

    assert found is not None
    assert 64 == found["slower_tokens"]


@pytest.mark.parametrize(
    ("is_full", "age_s", "evicts_early"), [(True, 30.0, True), (False, 30.0, False), (True, 90.0, False)]
)
def test_a_full_cache_that_evicts_before_reuse_is_marked(is_full: bool, age_s: float, evicts_early: bool) -> None:
    worker: dict[str, Any] = {
        "held": [],
        "used_tokens": 50,
        "capacity_tokens": 100,
        "thrash_share": None,
        "is_full": is_full,
        "eviction_age_s": age_s,
    }
    found = row({"reuse_age_p90_s": 60.0, "prefixes": []}, worker)

    assert (0.5, evicts_early, False) == (found["used_share"], found["evicts_early"], found["thrashes"])


def test_reuse_within_the_resolution_is_not_shown_as_no_time() -> None:
    assert ["under 2 s", "under 2 s", "2.0 s", "–"] == [reuse_time(value) for value in (0.0, 1.9, 2.0, None)]

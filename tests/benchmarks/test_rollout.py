"""What the benchmark of routes counts, and what it makes of it."""

import json
from collections import Counter

import httpx
import pytest

from benchmarks.report import Circumstances, Report
from benchmarks.rollout import CANARY, LARGE, SIZES, STABLE, AskedInVainError, Clients, Found, found_of, routes, tell
from gateway.settings import build
from simulator.tokens import TokenSequence


def a_found(*, dealt: float = 5.0, moved_again: int = 0, moved_back: int = 0, missent: int = 0) -> Found:
    by_size = {100: {STABLE: 10 - missent, LARGE: missent}, 4000: {LARGE: 10}}
    return Found(10_000, dealt, 5.1, 2_000, moved_again, 5.0, moved_back, by_size)


def test_the_routes_are_ones_that_a_gateway_takes() -> None:
    models = [{"name": name, "workers": [{"url": f"http://{name}:1"}]} for name in (STABLE, CANARY, LARGE)]

    assert ["dealt", "kept", "raised", "sized"] == [
        route.name for route in build({"models": models, "routes": routes()}, {}).routes
    ]


async def test_a_request_reports_the_model_that_served_it() -> None:
    def gateway(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        known = body.get("user") == "ann"
        return httpx.Response(200 if known else 503, headers={"x-warmgate-model": body["model"] + "-a"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(gateway)) as client:
        clients = Clients("http://gateway", client)

        assert {"ann": "kept-a"} == await clients.by_user("kept", ["ann"])
        with pytest.raises(AskedInVainError):
            await clients.dealt("dealt", 1)


async def test_prompts_are_as_long_as_they_should_be() -> None:
    asked: list[str] = []

    def gateway(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content)["messages"][0]["content"])
        return httpx.Response(200, headers={"x-warmgate-model": STABLE})

    async with httpx.AsyncClient(transport=httpx.MockTransport(gateway)) as client:
        found = await Clients("http://gateway", client).by_size("sized", 1)

    assert {size: {STABLE: 1} for size in SIZES} == found
    assert list(SIZES) == [len(TokenSequence.from_text(text)) for text in asked]
    assert [4.0] * len(SIZES) == [len(text) / size for text, size in zip(asked, SIZES, strict=True)]


def test_who_moved_is_counted_user_by_user() -> None:
    """Those who did not ask again are not."""
    first = {"a": STABLE, "b": STABLE, "c": CANARY, "d": CANARY}
    found = found_of(
        Counter({STABLE: 19, CANARY: 1}),
        first,
        {"a": STABLE, "c": STABLE},
        {"a": CANARY, "b": STABLE, "c": CANARY, "d": STABLE},
        {100: Counter({STABLE: 2, LARGE: 1}), 2000: Counter({LARGE: 3, STABLE: 1})},
    )

    assert (20, 5.0, 50.0) == (found.requests, found.dealt_percent, found.kept_percent)
    assert (2, 1) == (found.again, found.moved_again)
    assert (50.0, 1) == (found.moved_percent, found.moved_back)
    assert 2 == found.missent


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (a_found(), []),
        (a_found(dealt=6.1), ["dealt"]),
        (a_found(moved_again=1), ["again"]),
        (a_found(moved_back=1), ["raised"]),
        (a_found(missent=1), ["by size"]),
    ],
)
def test_each_part_has_a_bar(found: Found, missed: list[str]) -> None:
    report = Report("rollout", "title", Circumstances.observe(seed=None, packages=()))
    tell(report, found)

    assert missed == [bar.what.partition(":")[0] for bar in report.bars if not bar.is_met]
    assert ("sticky by user", 10_000, 5.1, 5.0) == tuple(report.tables[0].rows[1])

"""Facts about the page that explains and sends requests."""

from typing import Any

import msgspec
import pytest

from gateway.console.pages.explain import bars
from tests.gateway.api.admin_v1.test_explain import BODY, an_explaining_gateway
from tests.gateway.console.consoled import consoled
from tests.gateway.console.test_playground import Completions


def a_worker(**known: Any) -> dict[str, Any]:
    zeros = dict.fromkeys(("hit_load_s", "evicts_s", "displaces_s", "zone_penalty_s"), 0.0)
    return {**zeros, "predicted_ttft_s": 0.0, "cost_s": None, "load": {"backlog_s": 0.0}, **known}


def test_parts_of_a_cost_follow_each_other() -> None:
    """2 s in all: 0.5 s of waiting, 0.5 s of computing, 0.2 s of eviction, and 0.8 s because the fleet is busy."""
    worker = a_worker(predicted_ttft_s=1.0, cost_s=2.0, evicts_s=0.2, load={"backlog_s": 0.5})

    assert [("wait", 0, 75), ("prefill", 75, 75), ("evict", 150, 30), ("rest", 180, 120)] == [
        (bar["name"], round(bar["x"]), round(bar["width"])) for bar in bars(worker, 2.0)
    ]


def test_without_a_cost_only_the_time_to_the_first_token_is_shown() -> None:
    worker = a_worker(predicted_ttft_s=1.0, load={"backlog_s": 0.25})

    assert ["wait", "prefill"] == [bar["name"] for bar in bars(worker, 1.0)]


async def test_the_form_has_an_example() -> None:
    async with consoled(gateway=an_explaining_gateway()) as site:
        text = (await (await site.logged_in("vi")).get("/console/explain")).text

    assert "Why is the sky blue?" in text
    assert "Send and stream the answer" not in text


async def test_a_request_is_explained_and_kept_in_the_form() -> None:
    body = msgspec.json.encode(BODY).decode()
    async with consoled(gateway=an_explaining_gateway()) as site:
        answer = await (await site.logged_in("vi")).submit("/console/explain", body=body)

    assert 200 == answer.status_code
    assert "<h2>a would answer</h2>" in answer.text
    assert "&#34;Why is the sky blue?&#34;" in answer.text


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("[1]", "The request is not a JSON object."),
        (msgspec.json.encode({**BODY, "model": "<b>"}).decode(), "The model &#39;&lt;b&gt;&#39; does not exist"),
    ],
)
async def test_an_error_is_shown_beside_the_request(body: str, fault: str) -> None:
    async with consoled(gateway=an_explaining_gateway()) as site:
        answer = await (await site.logged_in("vi")).submit("/console/explain", body=body)

    assert (200, True) == (answer.status_code, fault in answer.text)


async def test_a_request_is_sent_with_the_typed_key() -> None:
    """The key appears nowhere on the page."""
    app = Completions([b'data: {"choices":[{"delta":{"content":"Blue."}}]}\n\n'])
    async with consoled(gateway=an_explaining_gateway(), completions=app) as site:
        browser = await site.logged_in("vi")
        form = (await browser.get("/console/explain")).text
        answer = await browser.submit("/console/explain/send", body='{"model": "tiny"}', key=" sk-team ")

    assert "Send and stream the answer" in form
    assert ("Bearer sk-team", b'{"model":"tiny"}') == (dict(app.scope["headers"])[b"authorization"].decode(), app.body)
    assert ">Blue.</pre>" in answer.text
    assert "sk-team" not in answer.text


async def test_a_request_that_is_no_object_is_not_sent() -> None:
    app = Completions([])
    async with consoled(gateway=an_explaining_gateway(), completions=app) as site:
        answer = await (await site.logged_in("vi")).submit("/console/explain/send", body="[]", key="sk-team")

    assert ("The request is not a JSON object." in answer.text, b"") == (True, app.body)


async def test_a_request_without_the_token_of_the_form_is_not_sent() -> None:
    app = Completions([])
    async with consoled(gateway=an_explaining_gateway(), completions=app) as site:
        answer = await (await site.logged_in("vi")).post("/console/explain/send", None, body="{}", csrf="x")

    assert (403, b"") == (answer.status_code, app.body)

"""Facts about the overview."""

from dataclasses import replace

import pytest

from gateway.api.admin_v1.gateway_facts import GatewayFacts, ModelFacts
from gateway.console.pages.overview import SHOWN, _with_counts
from tests.fakes.backends import Answers
from tests.gateway.api.admin_v1.test_models import of
from tests.gateway.console.consoled import consoled
from tests.gateway.examples import a_model, the_models
from tests.gateway.telemetry.test_traffic_history import Followed


async def test_workers_are_shown_with_their_state() -> None:
    async with consoled() as site:
        text = (await (await site.logged_in("vi")).get("/console")).text

    assert '<h2><a href="/console/models">tiny</a></h2>' in text
    assert '<span class="state good">up</span>' in text
    assert '<p class="empty">This model has no workers.</p>' in text


async def test_the_last_minute_is_shown_with_units() -> None:
    followed = Followed()
    for number in range(12):
        followed.answer(status=200 if number else 503)
        followed.take()
    models = the_models(a_model(Answers(), name="tiny"))
    async with consoled(gateway=replace(of(models), history=followed.history)) as site:
        browser = await site.logged_in("vi")
        text = (await browser.get("/console?minutes=60")).text

    assert '<dt>Requests</dt><dd><span class="value">0.2/s</span>' in text
    assert '<dt>Prompt tokens from the cache</dt><dd><span class="value">80.0 %</span>' in text
    assert '<dt>Failed requests</dt><dd><span class="value">8.3 %</span>' in text
    assert '<a href="/console?minutes=60" aria-current="true">60 minutes</a>' in text


async def test_a_start_without_traffic_has_no_values() -> None:
    async with consoled() as site:
        text = (await (await site.logged_in("vi")).get("/console")).text

    assert '<dt>Requests</dt><dd><span class="value">–</span>' in text
    assert 4 == text.count('<p class="empty">No values yet.</p>')


async def test_what_is_wrong_is_shown_with_what_to_do() -> None:
    facts = GatewayFacts(models=(ModelFacts(name="<i>", strategy="kv_aware", not_ready="it has no workers"),))
    models = the_models(a_model(Answers(), name="tiny"))
    async with consoled(gateway=replace(of(models), facts=lambda: facts)) as site:
        text = (await (await site.logged_in("vi")).get("/console")).text

    assert "<strong>The model cannot answer requests: it has no workers.</strong>" in text
    assert '<span class="tag">model &lt;i&gt;</span>' in text
    assert "docs/operate/troubleshoot-by-symptom.md#model-not-ready" in text


@pytest.mark.parametrize("minutes", ["0", "61", "x", "<script>"])
async def test_a_wrong_length_is_an_error_page(minutes: str) -> None:
    async with consoled() as site:
        answer = await (await site.logged_in("vi")).get(f"/console?minutes={minutes}")

    assert (400, False) == (answer.status_code, "<script>" in answer.text)


def test_of_many_workers_those_with_problems_are_listed() -> None:
    workers = [{"worker": f"w{i}", "state": "down" if i == 499 else "up", "in_flight": i} for i in range(500)]
    shown = _with_counts({"name": "tiny", "workers": workers})

    assert (SHOWN, 460, [("up", 499), ("down", 1)]) == (len(shown["listed"]), shown["others"], shown["states"])
    assert ["w499", "w498", "w497"] == [each["worker"] for each in shown["listed"][:3]]

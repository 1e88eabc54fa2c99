"""Facts about the page with models, routes and workers."""

import pytest

from gateway.api.admin_v1.parts import AdminGateway
from gateway.app.mapping.surroundings import configured_models
from gateway.telemetry.reloads import Reloaded
from tests.fakes.backends import Answers
from tests.gateway.api.admin_v1.test_models import SETTINGS, of
from tests.gateway.api.admin_v1.test_routes import routed
from tests.gateway.console.consoled import consoled
from tests.gateway.examples import a_draining, a_model, the_models

PATH = "/console/models"


async def test_a_model_is_shown_with_its_workers_and_prices() -> None:
    async with consoled() as site:
        text = (await (await site.logged_in("vi")).get(PATH)).text

    assert "<code>prefix_aware</code>" in text
    assert "$0.50 input, $0.50 cached input, $1.50 output per million tokens" in text
    assert "$2.50 per hour of a worker" in text
    assert ("/console/do/drain" in text, "/console/do/reload" in text) == (False, False)


async def test_an_operator_drains_and_undrains_a_worker() -> None:
    models = the_models(a_model(Answers(), name="tiny"))
    (worker,) = models.get("tiny").fleet  # type: ignore[union-attr]
    async with consoled(gateway=of(models)) as site:
        browser = await site.logged_in("op")
        await browser.submit("/console/do/drain", worker=worker.id, model="tiny")
        text = (await browser.get(PATH)).text
        assert "gets no new requests of tiny." in text
        assert '<span class="state waiting">drained</span>' in text
        assert worker.is_draining

        await browser.submit("/console/do/undrain", worker=worker.id, model="tiny")
        assert not worker.is_draining
        assert ["undrain", "drain"] == [entry["action"] for entry in await site.changes()]


async def test_an_unknown_worker_is_reported() -> None:
    async with consoled() as site:
        browser = await site.logged_in("op")
        await browser.submit("/console/do/drain", worker="<b>x</b>", model="tiny")
        text = (await browser.get(PATH)).text

    assert "There is no worker &#39;&lt;b&gt;x&lt;/b&gt;&#39; of the model &#39;tiny&#39;" in text


@pytest.mark.parametrize(
    ("reloaded", "expected"),
    [
        (Reloaded("applied"), "The configuration was reloaded and applied."),
        (Reloaded("unchanged"), "The configuration has not changed."),
        (Reloaded("applied", needs_restart=("server.port",)), "A restart is needed for server.port."),
        (Reloaded("refused", ("models is empty.",)), "models is empty."),
    ],
)
async def test_an_operator_reloads_the_configuration(reloaded: Reloaded, expected: str) -> None:
    async def reload() -> Reloaded:
        return reloaded

    models = the_models(a_model(Answers(), name="tiny"))
    gateway = AdminGateway(models, lambda: configured_models(SETTINGS), reload, draining=a_draining(models))
    async with consoled(gateway=gateway) as site:
        browser = await site.logged_in("op")
        await browser.submit("/console/do/reload")
        text = (await browser.get(PATH)).text

    assert expected in text


async def test_an_operator_changes_the_weights_of_a_route() -> None:
    async with consoled(gateway=of(routed())) as site:
        browser = await site.logged_in("op")
        before = (await browser.get(PATH)).text
        fields = {"route": "org/chat", "weight.tiny": "60", "weight.big": "20"}
        await browser.submit("/console/do/route-weights", **fields)
        after = (await browser.get(PATH)).text
        await browser.submit("/console/do/route-settings", route="org/chat")
        again = (await browser.get(PATH)).text

    row = '<tr><th scope="row">big</th><td class="number">{}</td><td class="number">5</td><td class="number">{}</td>'
    assert row.format(5, "5.0 %") in before
    assert "<td>long</td></tr>" in before
    assert "weights differ from the settings" not in before
    assert row.format(20, "25.0 %") in after
    assert "The weights of the route org/chat are set, on all gateways that share the store." in after
    assert "weights differ from the settings" in after
    assert row.format(5, "5.0 %") in again
    assert "The route org/chat uses the weights of the settings again." in again


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"weight.tiny": "many", "weight.big": "1"}, "The weight of the model &#39;tiny&#39; must be a number"),
        ({"weight.tiny": "inf", "weight.big": "1"}, "The weight of the model &#39;tiny&#39; must be a number"),
        ({"weight.tiny": "1"}, "&#39;weights&#39; lacks the model &#39;big&#39;"),
    ],
)
async def test_weights_that_do_not_fit_are_reported(fields: dict[str, str], text: str) -> None:
    async with consoled(gateway=of(routed())) as site:
        browser = await site.logged_in("op")
        await browser.submit("/console/do/route-weights", route="org/chat", **fields)
        assert text in (await browser.get(PATH)).text


async def test_a_viewer_sees_no_form_for_weights() -> None:
    async with consoled(gateway=of(routed())) as site:
        text = (await (await site.logged_in("vi")).get(PATH)).text

    assert ("Route org/chat" in text, "/console/do/route-weights" in text) == (True, False)

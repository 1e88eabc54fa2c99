"""Facts about the pages with teams."""

import pytest

from gateway.api.admin_v1.parts import AdminGateway
from tests.fakes.backends import Answers
from tests.gateway.api.admin_v1.test_team_limits import levels
from tests.gateway.console.consoled import consoled
from tests.gateway.examples import a_draining, a_model, the_models


async def test_an_owner_creates_a_team_with_limits() -> None:
    async with consoled() as site:
        browser = await site.logged_in()
        answer = await browser.submit(
            "/console/do/create-team", name="blue", requests_per_minute="60", usd_per_month="12.5", usd_per_day=" "
        )
        team = await site.administration.get("/teams/blue")

        assert "/console/teams/blue" == answer.headers["location"]
        assert {"requests_per_minute": 60, "usd_per_month": 12.5} == team["limits"]
        text = (await browser.get("/console/teams")).text
        assert '<a href="/console/teams/blue">blue</a>' in text
        assert "$12.50" in text


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("requests_per_minute", "many", "The limit &#39;Requests per minute&#39; must be a whole number"),
        ("usd_per_day", "1,5", "The limit &#39;US dollars per day&#39; must be an amount such as 12.50"),
        ("usd_per_day", "-1", "limits.usd_per_day"),
        ("usd_per_day", "nan", "The limit &#39;US dollars per day&#39; must be an amount such as 12.50"),
    ],
)
async def test_a_wrong_limit_is_reported(field: str, value: str, expected: str) -> None:
    async with consoled() as site:
        browser = await site.logged_in()
        await browser.submit("/console/do/create-team", name="blue", **{field: value})

        assert expected in (await browser.get("/console/teams")).text
        assert [] == (await site.administration.get("/teams"))["data"]


async def test_an_operator_changes_limits_and_blocks_a_team() -> None:
    async with consoled() as site:
        await site.administration.make("teams", name="blue", limits={"usd_per_day": 1.0})
        browser = await site.logged_in("op")
        await browser.submit("/console/do/limit-team", name="blue", usd_per_day="", tokens_per_day="1000")
        await browser.submit("/console/do/block-team", name="blue", blocked="true")
        team = await site.administration.get("/teams/blue")

        assert ({"tokens_per_day": 1000}, True) == (team["limits"], team["blocked"])
        text = (await browser.get("/console/teams/blue")).text
        assert '<span class="state bad">blocked</span>' in text
        await browser.submit("/console/do/block-team", name="blue", blocked="false")
        assert not (await site.administration.get("/teams/blue"))["blocked"]


async def test_a_viewer_sees_a_team_without_forms() -> None:
    async with consoled() as site:
        await site.administration.make("teams", name="blue")
        browser = await site.logged_in("vi")
        pages = [(await browser.get(path)).text for path in ("/console/teams", "/console/teams/blue")]

        assert [False, False] == ["/console/do/" in page for page in pages]
        answer = await browser.submit("/console/do/block-team", name="blue", blocked="true")
        assert 403 == answer.status_code


async def test_limits_are_shown_with_what_is_left() -> None:
    models = the_models(a_model(Answers(), name="tiny"))
    gateway = AdminGateway(models, tuple, draining=a_draining(models), limits=levels)
    async with consoled(gateway=gateway) as site:
        await site.administration.make("teams", name="blue", limits={"usd_per_day": 10.0})
        text = (await (await site.logged_in("vi")).get("/console/teams/blue")).text

    assert '<td class="number">$10.00</td><td class="number">$7.50</td>' in text
    assert 'aria-label="25.0 % used"' in text


async def test_requests_are_exported() -> None:
    async with consoled() as site:
        await site.administration.make("teams", name="blue")
        browser = await site.logged_in("vi")
        answer = await browser.get("/console/teams/blue/usage.csv?month=2026-11")
        unknown = await browser.get("/console/teams/green/usage.csv")
        foreign = await site.browser().get("/console/teams/blue/usage.csv")

    assert (200, True) == (answer.status_code, answer.text.startswith("time,request_id,team"))
    assert 'attachment; filename="usage-2026-11-01-2026-11-30.csv"' == answer.headers["content-disposition"]
    assert "content-security-policy" in answer.headers
    assert [404, 303] == [unknown.status_code, foreign.status_code]


async def test_an_unknown_team_is_an_error_page() -> None:
    async with consoled() as site:
        assert 404 == (await (await site.logged_in("vi")).get("/console/teams/green")).status_code

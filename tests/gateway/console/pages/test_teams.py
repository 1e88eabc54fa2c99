"""Facts about the pages with teams."""

from html import unescape
from pathlib import Path

import pytest

from gateway.api.admin_v1.parts import AdminGateway
from gateway.telemetry.what_if.replays import result_of
from gateway.tenancy.quota.limit import Level, Limit
from gateway.tenancy.quota.limit_status import LimitStatus, Owners
from gateway.tenancy.quota.scope import Scoped
from gateway.tenancy.teams.team import Team
from tests.fakes.backends import Answers
from tests.gateway.api.admin_v1.test_team_limits import levels
from tests.gateway.console.consoled import consoled
from tests.gateway.console.pages.test_what_if import job_of, served
from tests.gateway.examples import a_draining, a_model, the_models
from tests.gateway.telemetry.what_if.examples import a_job, folder
from tests.gateway.tenancy.ledger.examples import an_entry


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


async def test_the_form_names_the_limit_template() -> None:
    """Its limits are not in the fields, because saving would copy them to the team."""
    async with consoled() as site:
        await site.administration.make("teams", name="blue", limit_template="trial")
        await site.administration.make("teams", name="red")
        browser = await site.logged_in("op")
        pages = [(await browser.get(f"/console/teams/{name}")).text for name in ("blue", "red")]
        await browser.submit("/console/do/limit-team", name="blue", tokens_per_day="1000")
        team = await site.administration.get("/teams/blue")

        assert ("trial", {"tokens_per_day": 1000}) == (team["limit_template"], team["limits"])
    text = "Fields that are empty have the limits of the template <strong>trial</strong> in the settings."
    assert [True, False] == [text in page for page in pages]


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


async def test_a_full_limit_per_minute_is_not_shown_as_used() -> None:
    """Only a part of the amount can be used at once."""

    async def rates(team: Team, owners: Owners) -> list[LimitStatus]:
        limit = Limit("team:blue/tokens_per_minute", "rate", 900_000.0, 90_000.0)
        return [LimitStatus(Scoped(limit, "tokens_per_minute", "team", team.name, None), Level(90_000.0, 0.0))]

    models = the_models(a_model(Answers(), name="tiny"))
    async with consoled(gateway=AdminGateway(models, tuple, draining=a_draining(models), limits=rates)) as site:
        await site.administration.make("teams", name="blue")
        text = (await (await site.logged_in("vi")).get("/console/teams/blue")).text

    assert '<td class="number">900 k</td><td class="number">90.0 k of 90.0 k at once</td>' in text
    assert 'aria-label="0.0 % used"' in text


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


async def test_spend_by_team_model_and_day_is_exported() -> None:
    async with consoled() as site:
        await site.administration.make("teams", name="blue")
        await site.administration.book(an_entry(), an_entry(team="red"))
        browser = await site.logged_in("vi")
        page = unescape((await browser.get("/console/teams?month=2026-11")).text)
        table = await browser.get("/console/usage.csv?month=2026-11")
        data = (await browser.get("/console/usage.json?month=2026-11&team=red")).json()

    assert '<a href="/console/usage.csv?month=2026-11" download="usage-2026-11.csv">CSV</a>' in page
    assert '<a href="/console/usage.json?month=2026-11" download="usage-2026-11.json">JSON</a>' in page
    assert ["team,model,day", "blue,tiny,2026-11-21", "red,tiny,2026-11-21"] == [
        ",".join(line.split(",")[:3]) for line in table.text.splitlines()
    ]
    assert [("red", "tiny", "2026-11-21", 0.001)] == [
        (each["team"], each["model"], each["day"], each["cost_usd"]) for each in data["data"]
    ]


async def test_a_budget_is_shown_with_the_share_that_is_used() -> None:
    async with consoled() as site:
        await site.administration.make("teams", name="blue", limits={"usd_per_month": 0.004})
        await site.administration.make("teams", name="green")
        await site.administration.book(an_entry())
        text = (await (await site.logged_in("vi")).get("/console/teams")).text

    assert 'aria-label="25.0 % used"' in text
    assert '<span class="muted">25.0 %</span>' in text


async def test_savings_are_an_estimate_with_its_time_and_sample(tmp_path: Path) -> None:
    async with served(tmp_path) as (site, runner):
        await site.administration.make("teams", name="blue")
        job = a_job(folder(tmp_path))
        result = result_of(job, lambda _: None)
        blue = result.savings[0]
        viewer = await site.logged_in("vi")
        before = (await viewer.get("/console/teams")).text
        runner.of_shapes = job, result
        after, team = [(await viewer.get(path)).text for path in ("/console/teams", "/console/teams/blue")]

    sentence = f"Estimate from a replay of {sum(each.requests for each in result.savings)} requests for tiny in "
    assert "There is no estimate yet. A replay of recorded requests makes one." in before
    assert (True, True) == (sentence in after, sentence in team)
    assert f'<th scope="row">blue</th><td class="number">{blue.requests}</td>' in after
    assert f"{blue.requests} of them are of this team." in team
    assert "/console/do/estimate-savings" not in after


async def test_an_operator_starts_a_replay_for_the_estimate(tmp_path: Path) -> None:
    async with served(tmp_path) as (site, runner):
        operator = await site.logged_in("op")
        page = (await operator.get("/console/teams")).text
        await operator.submit("/console/do/estimate-savings", model="tiny")
        text = (await operator.get("/console/teams")).text
        await operator.submit("/console/do/estimate-savings", model="tiny")
        again = (await operator.get("/console/teams")).text

        assert ("tiny", ()) == (job_of(runner).model, job_of(runner).changes)
    assert "<option>tiny</option>" in page
    assert "The replay has started." in text
    assert "A replay is running. Wait for its end, or cancel it." in again

"""Facts about people whose admin key is limited to one team."""

import pytest

from gateway.console.all_pages import PAGES
from tests.gateway.api.admin_v1.administration import KEYS
from tests.gateway.api.admin_v1.test_one_team import LIMITED
from tests.gateway.console.consoled import consoled


async def test_the_overview_leads_to_the_team() -> None:
    async with consoled(keys=(*KEYS, LIMITED)) as site:
        await site.administration.make("teams", name="blue")
        browser = await site.logged_in("bv")
        first = await browser.get("/console")
        page = await browser.get(first.headers["location"])

    assert (303, "/console/teams/blue") == (first.status_code, first.headers["location"])
    assert (200, True) == (page.status_code, "viewer of blue" in page.text)
    assert ("/console/models" in page.text, "/console/audit" in page.text) == (False, False)


@pytest.mark.parametrize("path", [page.path for page in PAGES if not page.for_one_team and page.path != "/console"])
async def test_pages_about_all_teams_are_refused(path: str) -> None:
    async with consoled(keys=(*KEYS, LIMITED)) as site:
        browser = await site.logged_in("bv")
        answer = await browser.get(path.replace("{", "").replace("}", ""))
        stream = await browser.get(path.replace("{", "").replace("}", ""), accept="text/event-stream")

    assert [403, 403] == [answer.status_code, stream.status_code]


async def test_another_team_is_hidden() -> None:
    async with consoled(keys=(*KEYS, LIMITED)) as site:
        for team in ("blue", "green"):
            await site.administration.make("teams", name=team)
            await site.administration.make("keys", team=team, id=f"{team}-1")
        browser = await site.logged_in("bv")
        paths = (
            "/console/teams/green",
            "/console/keys/green-1",
            "/console/teams/green/usage.csv",
            "/console/keys/blue-1",
        )
        statuses = [(await browser.get(path)).status_code for path in paths]
        teams = (await browser.get("/console/teams")).text

    assert [403, 404, 403, 200] == statuses
    assert ("/console/teams/blue" in teams, "green" in teams) == (True, False)

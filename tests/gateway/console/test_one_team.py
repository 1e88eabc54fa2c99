"""Facts about people whose admin key is limited to one team."""

import re

import pytest

from gateway.console.all_pages import PAGES
from tests.gateway.api.admin_v1.administration import KEYS
from tests.gateway.api.admin_v1.test_one_team import LIMITED, TEAM_OWNER
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


async def test_an_owner_of_a_team_manages_its_keys_and_nothing_else() -> None:
    async with consoled(keys=(*KEYS, TEAM_OWNER)) as site:
        for team in ("blue", "green"):
            await site.administration.make("teams", name=team)
        await site.administration.make("keys", team="green", id="green-1")
        browser = await site.logged_in("bo")
        page = (await browser.get("/console/teams/blue")).text
        csrf = re.search(r'name="csrf" value="([^"]+)"', page)
        assert csrf is not None

        async def submitted(action: str, **fields: str) -> int:
            return (await browser.post(f"/console/do/{action}", None, csrf=csrf[1], **fields)).status_code

        created = await submitted("create-key", team="blue", once="0123456789abcdef")
        (key,) = (await site.administration.get("/keys?team=blue"))["data"]
        key_page = (await browser.get(f"/console/keys/{key['id']}")).text
        refused = [
            await submitted("create-team", name="red"),
            await submitted("limit-team", name="blue"),
            await submitted("block-key", id=key["id"], blocked="true"),
        ]
        deleted = [await submitted("delete-key", id=each) for each in (key["id"], "green-1")]

        assert ["green-1"] == [each["id"] for each in (await site.administration.get("/keys"))["data"]]
    assert ("owner of blue" in page, "/console/do/create-key" in page, 'name="id"' in page) == (True, True, False)
    assert ("/console/do/limit-team" in page, "/console/do/rotate-key" in key_page) == (False, True)
    assert (200, [403, 403, 403], [303, 303]) == (created, refused, deleted)

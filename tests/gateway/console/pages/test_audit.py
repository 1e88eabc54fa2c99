"""Facts about the audit log."""

from gateway.console.pages.audit import LENGTH, changes
from tests.gateway.console.consoled import consoled


def test_only_changed_fields_are_shown() -> None:
    before, after = {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 5, "d": None}

    assert [("b", 2, 5), ("c", 3, None)] == changes(before, after)


async def test_changes_are_listed_latest_first_in_pages() -> None:
    async with consoled() as site:
        for number in range(LENGTH + 1):
            await site.administration.make("teams", name=f"team-{number}")
        browser = await site.logged_in("vi")
        first = (await browser.get("/console/audit")).text
        address = first.partition('href="/console/audit?after=')[2].partition('"')[0]
        second = (await browser.get(f"/console/audit?after={address}")).text

    assert (f"<strong>team-{LENGTH}</strong>" in first, "<strong>team-0</strong>" in first) == (True, False)
    assert (f"<strong>team-{LENGTH}</strong>" in second, "<strong>team-0</strong>" in second) == (False, True)


async def test_an_empty_log_says_so() -> None:
    async with consoled() as site:
        browser = await site.logged_in("vi")
        await site.administration.file.run(lambda connection: connection.execute("DELETE FROM directory_audit"))
        text = (await browser.get("/console/audit")).text

    assert "No changes are recorded yet." in text


async def test_the_log_shows_logins() -> None:
    async with consoled() as site:
        text = (await (await site.logged_in("vi")).get("/console/audit")).text

    assert "<td>login</td>\n<td>login <strong>console</strong></td>" in text
    assert '<dt>address</dt><dd><code>none</code> → <code>"127.0.0.1"</code></dd>' in text


async def test_a_wrong_address_is_an_error_page() -> None:
    async with consoled() as site:
        answer = await (await site.logged_in("vi")).get("/console/audit?after=x")

    assert (400, True) == (answer.status_code, "must be the value of" in answer.text)

"""Facts about pages, actions and errors of the console."""

import asyncio
from typing import Any

import pytest

from gateway.console.forms import Form
from gateway.console.page import Action, Context, Done, Page, Shown, View
from gateway.console.site import back_to
from gateway.server.asgi import Message
from tests.gateway.console.consoled import SAME, Consoled, consoled


async def teams(view: View) -> Context:
    names = [team["name"] for team in await view.admin.listed("teams")]
    subject = dict.fromkeys(("model", "worker", "team", "fallback"))
    findings = [{"severity": "error", "text": name, "remedy": "", "page": "", "code": "", **subject} for name in names]
    return {"status": 200, "text": f"<b> {', '.join(names)}", "findings": findings}


async def broken(_view: View) -> Context:
    raise ZeroDivisionError


async def create(view: View, form: Form) -> Done:
    team = await view.admin.request("POST", ("teams",), body={"name": form["name"]})
    return Done(location="/console", text=f"The team {team['name']} was created.")


async def show(_view: View, _form: Form) -> Shown:
    return Shown(title="Once", template="error.html", context={"status": 200, "text": "shown <once>"})


LIVE = {"teams": "overview/findings.html"}
PAGES = (
    Page(path="/console", title="Teams", template="error.html", load=teams, in_navigation=True, live=LIVE),
    Page(path="/console/broken", title="Broken", template="error.html", load=broken),
)
ACTIONS = (
    Action(path="/console/create", role="operator", act=create, back="/console"),
    Action(path="/console/show", role="viewer", act=show, back="/console"),
)


async def test_a_page_shows_the_values_of_the_admin_api_escaped() -> None:
    async with consoled(pages=PAGES) as site:
        await site.administration.make("teams", name="blue")
        answer = await (await site.logged_in("vi")).get("/console")

    assert 200 == answer.status_code
    assert "<p>&lt;b&gt; blue</p>" in answer.text
    assert '<a href="/console" aria-current="page">Teams</a>' in answer.text
    assert "no-store" == answer.headers["cache-control"]


async def test_without_a_session_a_page_leads_to_the_login() -> None:
    async with consoled(pages=PAGES) as site:
        browser = site.browser()
        answers = [await browser.get("/console"), await browser.get("/console/broken?a=1&b=%2F")]

    assert [303, 303] == [answer.status_code for answer in answers]
    expected = ["/console/login", "/console/login?next=%2Fconsole%2Fbroken%3Fa%3D1%26b%3D%252F"]
    assert expected == [answer.headers["location"] for answer in answers]


async def test_an_action_is_done_once_and_reported_once() -> None:
    async with consoled(pages=PAGES, actions=ACTIONS) as site:
        browser = await site.logged_in()
        answer = await browser.submit("/console/create", name="blue")
        assert (303, "/console") == (answer.status_code, answer.headers["location"])

        assert "The team blue was created." in (await browser.get("/console")).text
        assert "The team blue was created." not in (await browser.get("/console")).text
        assert [("ow", "create", "blue")] == [
            (entry["who"], entry["action"], entry["id"]) for entry in await site.changes()
        ]


async def test_a_refused_action_shows_the_reason() -> None:
    """The operator has the role of the action, but the admin API wants an owner."""
    async with consoled(pages=PAGES, actions=ACTIONS) as site:
        browser = await site.logged_in("op")
        answer = await browser.submit("/console/create", name="blue", back="https://evil.example.com")

        assert (303, "/console") == (answer.status_code, answer.headers["location"])
        text = (await browser.get("/console")).text
        assert '<p class="notice failed">This needs the role' in text


async def test_an_action_needs_its_role() -> None:
    async with consoled(pages=PAGES, actions=ACTIONS) as site:
        answer = await (await site.logged_in("vi")).submit("/console/create", name="blue")

        assert 403 == answer.status_code
        assert "This action needs the role operator." in answer.text
        assert [] == await site.changes()


async def test_an_outcome_can_be_a_page() -> None:
    async with consoled(pages=PAGES, actions=ACTIONS) as site:
        answer = await (await site.logged_in("vi")).submit("/console/show")

    assert (200, True) == (answer.status_code, "shown &lt;once&gt;" in answer.text)
    assert '<a href="/console" aria-current="page">Teams</a>' in answer.text


@pytest.mark.parametrize(
    ("headers", "csrf"),
    [
        ({}, None),
        ({"sec-fetch-site": "cross-site"}, None),
        ({"origin": "https://evil.example.com"}, None),
        (SAME, ""),
        (SAME, "token-1"),
    ],
)
async def test_a_forged_action_changes_nothing(headers: dict[str, str], csrf: str | None) -> None:
    """Another page sends it with the cookie, or without the token of the session."""
    async with consoled(pages=PAGES, actions=ACTIONS) as site:
        browser = await site.logged_in()
        fields = {"csrf": await browser.csrf() if csrf is None else csrf, "name": "blue"}
        answer = await browser.post("/console/create", headers, **fields)

        assert 403 == answer.status_code
        assert [] == await site.changes()


async def test_an_action_without_a_session_changes_nothing() -> None:
    async with consoled(pages=PAGES, actions=ACTIONS) as site:
        answer = await site.browser().post("/console/create", name="blue")

        assert (303, "/console/login") == (answer.status_code, answer.headers["location"])
        assert [] == await site.changes()


async def test_an_error_has_a_page() -> None:
    async with consoled(pages=PAGES, actions=ACTIONS) as site:
        browser = await site.logged_in()
        unknown, wrong = await browser.get("/console/nowhere"), await browser.get("/console/create")
        with pytest.raises(ZeroDivisionError):  # and goes on to the server, which logs it
            await browser.get("/console/broken")

    assert [404, 405] == [unknown.status_code, wrong.status_code]
    assert "The console has no page with this address." in unknown.text
    assert "content-security-policy" in unknown.headers


async def test_files_are_served_without_a_session() -> None:
    async with consoled() as site:
        browser = site.browser()
        login = (await browser.get("/console/login")).text
        address = login.partition('<link rel="stylesheet" href="')[2].partition('"')[0]
        style, other = await browser.get(address), await browser.get("/console/static/console.css")

    assert (200, "text/css; charset=utf-8") == (style.status_code, style.headers["content-type"])
    assert 404 == other.status_code


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("/console", "/console"),
        ("/console?a=1", "/console?a=1"),
        ("/console/teams/blue?a=1#b", "/console/teams/blue?a=1#b"),
        *((place, "/else") for place in (None, "", "/", "//evil.example.com", "/consoles", "https://evil.example.com")),
        *((place, "/else") for place in ("/console/\\evil", "/console/\n", "/console/ä", "/consoleevil.example.com")),
    ],
)
def test_nothing_leads_to_another_site(place: str | None, expected: str) -> None:
    assert expected == back_to(place, "/else")


# ---- live parts


async def listened(site: Consoled, cookie: str | None, *, events: int) -> tuple[int, list[bytes]]:
    """Status and first events of the stream of /console."""
    messages: list[Message] = []
    enough = asyncio.Event()

    async def receive() -> Message:
        await enough.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        messages.append(message)
        if sum(bool(each.get("body")) for each in messages) >= events or not message.get("more_body", True):
            enough.set()

    headers = [(b"host", b"127.0.0.1"), (b"accept", b"text/event-stream")]
    if cookie is not None:
        headers.append((b"cookie", f"__Host-warmgate-console={cookie}".encode()))
    scope: dict[str, Any] = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "GET",
        "scheme": "http", "path": "/console", "raw_path": b"/console", "root_path": "", "query_string": b"",
        "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8080), "state": {},
    }  # fmt: skip
    async with asyncio.timeout(60):
        await site.app(scope, receive, send)
    return messages[0]["status"], [message["body"] for message in messages[1:] if message.get("body")]


async def test_a_page_is_also_a_stream_of_its_live_parts() -> None:
    async with consoled(pages=PAGES) as site:
        await site.administration.make("teams", name="blue")
        browser = await site.logged_in("vi")
        status, (event,) = await listened(site, browser.cookie, events=1)

    assert 200 == status
    assert event.startswith(
        b'event: part\ndata: {"name":"teams","html":"<div class=\\"notice finding failed\\">\\n<p><strong>blue</strong>'
    )


async def test_a_stream_needs_a_session_and_does_not_prolong_it() -> None:
    async with consoled(pages=PAGES) as site:
        browser = await site.logged_in("vi")
        assert (401, []) == await listened(site, None, events=1)
        site.clock.now += 599
        await listened(site, browser.cookie, events=1)
        site.clock.now += 1

        assert (401, []) == await listened(site, browser.cookie, events=1)

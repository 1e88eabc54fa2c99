"""Facts about the login with an identity provider, and attacks on it."""

import re
from dataclasses import replace

import httpx
import pytest

from gateway.tenancy.identity.role_rule import RoleGrant
from tests.gateway.console.consoled import Browser, consoled
from tests.gateway.console.providers import ALICE, Provider

SESSION, BEGUN = "__Host-warmgate-console", "__Host-warmgate-login"
START, CALLBACK = "/console/login/with/okta", "/console/login/callback"


async def begun(browser: Browser, path: str = START) -> str:
    """Begin a login, and return its state."""
    answer = await browser.get(path)
    assert 303 == answer.status_code
    return answer.headers["location"].partition("state=")[2]


async def finished(browser: Browser, state: str, code: str = "code", **more: str) -> httpx.Response:
    headers = {"sec-fetch-site": "cross-site"}
    return await browser.http.get(CALLBACK, params={"code": code, "state": state, **more}, headers=headers)


async def test_a_person_logs_in_and_has_the_role_of_the_rules() -> None:
    async with consoled(providers=[Provider()]) as site:
        browser = site.browser()
        assert f'href="{START}?next=/console"' in (await browser.get("/console/login")).text
        start = await browser.get(START)
        answer = await finished(browser, start.headers["location"].partition("state=")[2])

        assert "HttpOnly; Max-Age=600; Path=/; SameSite=lax; Secure" in start.headers["set-cookie"]
        assert (200, "0; url=/console") == (answer.status_code, answer.headers["refresh"])
        assert "HttpOnly; Path=/; SameSite=strict; Secure" in answer.headers["set-cookie"]
        page = (await browser.get("/console/teams")).text
        assert '<span class="name">oidc:okta:alice</span> <span class="tag">owner</span>' in page
        await browser.submit("/console/do/create-team", name="blue")
        created, login = await site.administration.audited()

    assert ("oidc:okta:alice", "owner", "create", "blue") == tuple(
        created[name] for name in ("who", "role", "action", "id")
    )
    assert ("oidc:okta:alice", "login", "identity provider") == (login["who"], login["action"], login["after"]["with"])


async def test_a_viewer_of_one_team_sees_only_the_team() -> None:
    provider = Provider(person=replace(ALICE, grant=RoleGrant("viewer", "blue")))
    async with consoled(providers=[provider]) as site:
        for team in ("blue", "red"):
            await site.administration.make("teams", name=team)
        browser = site.browser()
        await finished(browser, await begun(browser))

        assert 200 == (await browser.get("/console/teams/blue")).status_code
        assert [403, 403] == [
            (await browser.get(path)).status_code for path in ("/console/models", "/console/teams/red")
        ]


@pytest.mark.parametrize(
    ("place", "opened"),
    [
        ("/console/teams%3Fa%3D1", "/console/teams?a=1"),
        ("https://evil.example.com", "/console"),
        ("//evil.example.com", "/console"),
        ("/console%2F..%5Cevil", "/console"),
        ("/console/%0d%0aset-cookie:x", "/console"),
        ("/consoleevil", "/console"),
        ("/console/" + "a" * 1000, "/console"),
    ],
)
async def test_the_login_leads_to_pages_of_the_console_only(place: str, opened: str) -> None:
    async with consoled(providers=[Provider()]) as site:
        browser = site.browser()
        answer = await finished(browser, await begun(browser, f"{START}?next={place}"))

    assert f"0; url={opened}" == answer.headers["refresh"]


async def refused(site_browser: Browser, answer: httpx.Response, provider: Provider) -> None:
    """No session, no request to the provider, and a form that says why."""
    assert (403, True) == (answer.status_code, 'role="alert"' in answer.text)
    assert (None, []) == (site_browser.cookie, provider.exchanged)


@pytest.mark.parametrize("query", ["code=code", "code=code&state=", "code=code&state=wrong", "state=%ff&code=code"])
async def test_without_the_state_of_the_login_nothing_opens(query: str) -> None:
    provider = Provider()
    async with consoled(providers=[provider]) as site:
        browser = site.browser()
        await begun(browser)

        await refused(browser, await browser.get(f"{CALLBACK}?{query}"), provider)


async def test_a_state_that_occurs_twice_opens_nothing() -> None:
    provider = Provider()
    async with consoled(providers=[provider]) as site:
        browser = site.browser()
        state = await begun(browser)

        await refused(browser, await browser.get(f"{CALLBACK}?code=code&state={state}&state={state}"), provider)


async def test_the_state_of_another_browser_opens_nothing() -> None:
    """Otherwise an attacker could log a victim in to the account of the attacker."""
    provider = Provider()
    async with consoled(providers=[provider]) as site:
        attacker, victim, stranger = site.browser(), site.browser(), site.browser()
        state = await begun(attacker)
        await begun(victim)

        await refused(victim, await finished(victim, state), provider)
        await refused(stranger, await finished(stranger, state), provider)


async def test_a_login_is_not_completed_twice() -> None:
    provider = Provider()
    async with consoled(providers=[provider]) as site:
        browser = site.browser()
        state = await begun(browser)
        begun_with = str(browser.http.cookies[BEGUN])
        await finished(browser, state)
        provider.code = "code"
        thief = site.browser()
        thief.http.cookies.set(BEGUN, begun_with)

        assert (403, None) == ((await finished(thief, state)).status_code, thief.cookie)
        assert BEGUN not in browser.http.cookies


async def test_a_wrong_state_ends_the_login() -> None:
    """A second guess is therefore useless."""
    provider = Provider()
    async with consoled(providers=[provider]) as site:
        browser = site.browser()
        state = await begun(browser)
        begun_with = str(browser.http.cookies[BEGUN])
        await finished(browser, "guess")
        browser.http.cookies.set(BEGUN, begun_with)

        await refused(browser, await finished(browser, state), provider)


async def test_a_login_that_is_too_old_is_not_completed() -> None:
    provider = Provider()
    async with consoled(providers=[provider]) as site:
        browser = site.browser()
        state = await begun(browser)
        site.clock.now += 600

        await refused(browser, await finished(browser, state), provider)


async def test_a_code_that_the_provider_refuses_opens_nothing() -> None:
    provider = Provider()
    async with consoled(providers=[provider]) as site:
        browser = site.browser()
        answer = await finished(browser, await begun(browser), code="stolen")

        assert (403, None, [("stolen", None)]) == (answer.status_code, browser.cookie, provider.exchanged)
        assert "did not accept the code" in answer.text
        await site.administration.refused_logins.settle()
        (entry,) = await site.administration.audited()
        assert {"identity provider": 1} == entry["after"]["reasons"]


@pytest.mark.parametrize(
    ("error", "shown"),
    [("access_denied", "access_denied"), ("<script>", "an unknown error"), ("a" * 61, "an unknown error")],
)
async def test_an_error_of_the_provider_is_shown_if_it_is_a_code(error: str, shown: str) -> None:
    provider = Provider()
    async with consoled(providers=[provider]) as site:
        browser = site.browser()
        state = await begun(browser)
        answer = await browser.http.get(CALLBACK, params={"error": error, "state": state, "error_description": "<b>"})

        await refused(browser, answer, provider)
        assert f"did not complete the login: {shown}." in answer.text
        assert "<b>" not in answer.text


async def test_a_planted_cookie_is_never_that_of_a_session() -> None:
    async with consoled(providers=[Provider()]) as site:
        browser = site.browser()
        state = await begun(browser)
        browser.http.cookies.set(SESSION, "planted", domain="127.0.0.1")
        await finished(browser, state)
        planted = site.browser()
        planted.http.cookies.set(SESSION, "planted")

        assert 303 == (await planted.get("/console")).status_code


async def test_the_session_that_the_browser_had_ends() -> None:
    async with consoled(providers=[Provider()]) as site:
        browser, thief = await site.logged_in("vi"), site.browser()
        thief.http.cookies.set(SESSION, str(browser.cookie))
        state = await begun(browser)
        assert 200 == (await thief.get("/console")).status_code
        await finished(browser, state)

        assert 303 == (await thief.get("/console")).status_code


async def test_a_revoked_person_has_no_session_any_more() -> None:
    provider = Provider()
    async with consoled(providers=[provider]) as site:
        browser = site.browser()
        await finished(browser, await begun(browser))
        assert 200 == (await browser.get("/console")).status_code
        provider.is_revoked = True
        assert 303 == (await browser.get("/console")).status_code
        provider.is_revoked = False

        assert 303 == (await browser.get("/console")).status_code


async def test_logging_out_ends_the_session_here_and_then_at_the_provider() -> None:
    async with consoled(providers=[Provider()]) as site:
        browser, thief = site.browser(), site.browser()
        await finished(browser, await begun(browser))
        thief.http.cookies.set(SESSION, str(browser.cookie))
        answer = await browser.submit("/console/logout")

        assert "0; url=https://login.example.com/end?id_token_hint=x&a=b" == answer.headers["refresh"]
        assert 303 == (await thief.get("/console")).status_code


@pytest.mark.parametrize("is_down", [False, True])
async def test_without_an_address_for_logout_only_the_session_here_ends(is_down: bool) -> None:
    provider = Provider(logout=None)
    async with consoled(providers=[provider]) as site:
        browser = site.browser()
        await finished(browser, await begun(browser))
        provider.is_down = is_down
        answer = await browser.submit("/console/logout")

    assert (303, "/console/login") == (answer.status_code, answer.headers["location"])


async def test_while_the_provider_is_down_admin_keys_still_work() -> None:
    provider = Provider()
    async with consoled(providers=[provider]) as site:
        browser = site.browser()
        state = await begun(browser)
        provider.is_down = True
        answers = [await finished(browser, state), await browser.get(START)]

        assert [503, 503] == [answer.status_code for answer in answers]
        assert (
            "The identity provider okta cannot be used now: it cannot be reached. Admin keys still" in answers[1].text
        )
        assert 303 == (await browser.log_in()).status_code
        assert 200 == (await browser.get("/console")).status_code


async def test_other_providers_and_methods_do_not_exist() -> None:
    async with consoled(providers=[Provider()]) as site:
        browser = site.browser()

        assert 404 == (await browser.get("/console/login/with/other")).status_code
        assert 405 == (await browser.post(CALLBACK, code="code", state="x")).status_code
    async with consoled() as site:
        assert [404, 404] == [(await site.browser().get(path)).status_code for path in (START, CALLBACK)]
        assert "login/with" not in (await site.browser().get("/console/login")).text


async def test_the_form_for_a_key_that_is_sent_twice_shows_the_same_secret() -> None:
    """The secret is derived from a random value of the login, which no store contains."""
    async with consoled(providers=[Provider()]) as site:
        await site.administration.make("teams", name="blue")
        browser = site.browser()
        await finished(browser, await begun(browser))
        form = {"team": "blue", "id": "key-1", "once": "0123456789abcdef"}
        pages = [(await browser.submit("/console/do/create-key", **form)).text for _ in range(2)]

    first, second = (re.findall(r"wg-key-1-[A-Za-z0-9_-]+", page) for page in pages)
    assert 1 == len(first)
    assert first == second

"""Facts about login and logout."""

from gateway.api.admin_access import AdminKey
from tests.gateway.api.admin_v1.administration import KEYS
from tests.gateway.console.consoled import consoled

COOKIE = "__Host-warmgate-console"


async def test_an_admin_key_opens_a_session() -> None:
    async with consoled() as site:
        browser = site.browser()
        answer = await browser.log_in()

        assert (303, "/console") == (answer.status_code, answer.headers["location"])
        assert f"{COOKIE}=token-1; HttpOnly; Path=/; SameSite=strict; Secure" == answer.headers["set-cookie"]
        assert "s3cret" not in str(answer.headers)
        assert 200 == (await browser.get("/console")).status_code


async def test_the_login_leads_back_to_the_page() -> None:
    async with consoled() as site:
        browser = site.browser()
        form = (await browser.get("/console/login?next=%2Fconsole%2Fteams%3Fa%3D1")).text
        assert '<input type="hidden" name="next" value="/console/teams?a=1">' in form

        places = ["/console/teams?a=1", "//evil.example.com", "/console/\\evil"]
        answers = [await browser.post("/console/login", key="s3cret-of-vi", next=place) for place in places]
        expected = ["/console/teams?a=1", "/console", "/console"]
        assert expected == [answer.headers["location"] for answer in answers]


async def test_a_wrong_key_opens_nothing_and_is_counted_for_the_audit_log() -> None:
    async with consoled() as site:
        browser = site.browser()
        answers = [await browser.log_in(secret) for secret in ("wrong", "", "s3cret-of-o", "ümlaut")]

        assert [403] * 4 == [answer.status_code for answer in answers]
        assert "The admin key is unknown." in answers[0].text
        assert ("wrong" in answers[0].text, browser.cookie) == (False, None)
        await site.administration.refused_logins.settle()
        (entry,) = await site.administration.audited()
        assert {"no key": 1, "wrong key": 3} == entry["after"]["reasons"]


async def test_failed_logins_are_limited_by_address() -> None:
    async with consoled() as site:
        attacker, other = site.browser(peer="192.0.2.1"), site.browser(peer="192.0.2.2")
        for _ in range(10):
            await attacker.log_in("wrong")
        refused = await attacker.log_in()

        assert (429, "31") == (refused.status_code, refused.headers["retry-after"])
        assert 303 == (await other.log_in()).status_code
        site.clock.now += 30
        assert 303 == (await attacker.log_in()).status_code


async def test_a_trusted_proxy_names_the_address() -> None:
    async with consoled() as site:
        proxy = site.browser(peer="10.0.0.1")
        headers = {"sec-fetch-site": "same-origin", "x-forwarded-for": "192.0.2.1"}
        for _ in range(10):
            await proxy.post("/console/login", headers, key="wrong")
        first = await proxy.post("/console/login", headers, key="wrong")
        second = await proxy.post("/console/login", {**headers, "x-forwarded-for": "192.0.2.9"}, key="wrong")

        assert [429, 403] == [first.status_code, second.status_code]
        await site.administration.refused_logins.settle()
        (entry,) = await site.administration.audited()
        assert {"wrong key": 11, "too many attempts": 1} == entry["after"]["reasons"]
        assert {"192.0.2.1": 11, "192.0.2.9": 1} == entry["after"]["addresses"]


async def test_a_login_of_another_site_is_refused() -> None:
    """Otherwise a reader would work in the session of an attacker."""
    async with consoled() as site:
        browser = site.browser()
        headers = [{"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example.com"}, {}]
        answers = [await browser.post("/console/login", each, key="s3cret-of-ow") for each in headers]

        assert [403, 403, 403] == [answer.status_code for answer in answers]
        assert browser.cookie is None


async def test_a_login_never_keeps_the_token_that_the_browser_had() -> None:
    """A person who planted a token would otherwise know that of the session."""
    async with consoled() as site:
        browser = site.browser()
        browser.http.cookies.set(COOKIE, "planted", domain="127.0.0.1")
        await browser.log_in("s3cret-of-vi")
        first = browser.http.cookies.get(COOKIE, domain="127.0.0.1", path="/")
        await browser.log_in("s3cret-of-ow")

        old, planted = site.browser(), site.browser()
        old.http.cookies.set(COOKIE, str(first))
        planted.http.cookies.set(COOKIE, "planted")
        assert [303, 303] == [(await each.get("/console")).status_code for each in (old, planted)]


async def test_logging_out_ends_the_session_at_once() -> None:
    async with consoled() as site:
        browser, thief = await site.logged_in(), site.browser()
        thief.http.cookies.set(COOKIE, str(browser.cookie))
        assert 200 == (await thief.get("/console")).status_code
        answer = await browser.submit("/console/logout")

        assert (303, "/console/login") == (answer.status_code, answer.headers["location"])
        assert 303 == (await thief.get("/console")).status_code


async def test_a_login_and_a_logout_are_in_the_audit_log() -> None:
    async with consoled() as site:
        browser = site.browser()
        await browser.log_in("s3cret-of-op")
        await browser.submit("/console/logout")
        logout, login = await site.administration.audited()

    assert ("op", "operator", "login", "login", "console") == tuple(
        login[name] for name in ("who", "role", "action", "kind", "id")
    )
    assert {"address": "127.0.0.1", "with": "admin key"} == login["after"]
    assert ("op", "logout", {"address": "127.0.0.1"}) == (logout["who"], logout["action"], logout["after"])
    assert "s3cret" not in str((login, logout))


async def test_a_login_with_a_link_is_in_the_audit_log() -> None:
    async with consoled() as site:
        site.links.add("link", site_key())
        await site.browser().get("/console/login?token=link")
        (entry,) = await site.administration.audited()

    assert ("ow", "login", "one-time link") == (entry["who"], entry["action"], entry["after"]["with"])
    assert "token" not in str(entry)


async def test_logging_out_needs_the_token_of_the_session() -> None:
    async with consoled() as site:
        browser = await site.logged_in()

        assert 403 == (await browser.post("/console/logout", csrf="token-1")).status_code
        assert 403 == (await browser.post("/console/logout", {"sec-fetch-site": "cross-site"})).status_code
        assert 200 == (await browser.get("/console")).status_code


async def test_a_link_logs_in_once() -> None:
    async with consoled() as site:
        site.links.add("link", site_key())
        browser = site.browser()
        first, second = (
            await browser.get("/console/login?token=link"),
            await site.browser().get("/console/login?token=link"),
        )

        assert (303, "/console") == (first.status_code, first.headers["location"])
        assert 200 == (await browser.get("/console")).status_code
        assert (403, True) == (second.status_code, "This link was used before" in second.text)


async def test_a_link_on_another_site_does_not_log_in() -> None:
    async with consoled() as site:
        site.links.add("link", site_key())
        browser = site.browser()
        answer = await browser.get("/console/login?token=link", sec_fetch_site="cross-site")

        assert (200, None) == (answer.status_code, browser.cookie)
        assert 303 == (await browser.get("/console/login?token=link", sec_fetch_site="none")).status_code


async def test_the_login_page_sends_a_reader_with_a_session_on() -> None:
    async with consoled() as site:
        answer = await (await site.logged_in()).get("/console/login")

    assert (303, "/console") == (answer.status_code, answer.headers["location"])


def site_key() -> AdminKey:
    return KEYS[2]

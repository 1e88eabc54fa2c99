"""Attacks on logins and sessions: each is attempted, and refused."""

import http.client
import re
import time
from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import pytest
from playwright.sync_api import Browser

from tests.console.browser import COOKIE, Faults
from tests.console.people import SAME_ORIGIN, client, csrf_token, log_in, new_session, post, token_of, window
from tests.console.processes import SECRETS, Running
from tests.console.processes import served as serving

HOME = "/console"
LOGIN = "/console/login"


def is_logged_in(running: Running, token: str) -> bool:
    with client(running, token) as http:
        response = http.get(HOME)
    assert response.status_code in (200, 303), response.text
    return response.status_code == 200


def status_with(running: Running, headers: dict[str, str]) -> int:
    """Return the status of a request with exactly the headers *headers*."""
    connection = http.client.HTTPConnection(urlsplit(running.url).netloc, timeout=60)
    try:
        connection.putrequest("GET", LOGIN, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_one_time_link_of_the_demo_works_once(browser: Browser, lonely: Running, faults: Faults) -> None:
    """`make run` prints it. It opens the overview; the second use is refused, and the session of the first stays."""
    with window(browser, lonely, faults=faults) as page:
        page.goto(lonely.link)
        assert "Overview" == page.locator("h1").inner_text()
        assert lonely.url + HOME == page.url
        page.goto(HOME)
        assert "Overview" == page.locator("h1").inner_text()
    with client(lonely) as http:
        again = http.get(lonely.link)

    assert 403 == again.status_code
    assert "set-cookie" not in again.headers


def test_a_foreign_page_cannot_use_a_one_time_link(served: Running) -> None:
    """A visitor would work in the session of an attacker, who knows the link."""
    with client(served) as http:
        response = http.get(LOGIN, params={"token": "x" * 43}, headers={"sec-fetch-site": "cross-site"})

    assert "set-cookie" not in response.headers


def test_the_cookie_of_a_session_is_out_of_reach(served: Running) -> None:
    """Only this host gets it, scripts cannot read it, and other sites cannot make the browser send it."""
    with client(served) as http:
        response = log_in(http, SECRETS["vera"])
    name, _, attributes = response.headers["set-cookie"].partition(";")

    assert name.startswith(COOKIE + "=")
    assert {"path=/", "secure", "httponly", "samesite=strict"} == {
        each.strip().lower() for each in attributes.split(";")
    }


def test_the_cookie_is_no_admin_key(served: Running) -> None:
    """It is an opaque token of 256 bits, which the admin API does not accept."""
    token = new_session(served, "olga")
    with client(served, token) as http:
        by_cookie = http.get("/admin/v1/keys")
        by_key = http.get("/admin/v1/keys", headers={"authorization": f"Bearer {token}"})

    assert re.fullmatch(r"[A-Za-z0-9_-]{43,}", token)
    assert SECRETS["olga"] not in token
    assert (401, 401) == (by_cookie.status_code, by_key.status_code)


def test_a_session_that_an_attacker_fixed_is_not_opened(served: Running) -> None:
    """A login makes a new token, whatever cookie the browser has: the attacker's stays without a session."""
    fixed = "A" * 43
    with client(served, fixed) as http:
        token = token_of(log_in(http, SECRETS["vera"]))

    assert token != fixed
    assert not is_logged_in(served, fixed)
    assert is_logged_in(served, token)


def test_a_second_login_ends_the_first_session(served: Running) -> None:
    """A token that an attacker has seen before is of no use afterwards."""
    first = new_session(served, "vera")
    with client(served, first) as http:
        second = token_of(log_in(http, SECRETS["vera"]))

    assert first != second
    assert not is_logged_in(served, first)


def test_a_cookie_is_of_no_use_after_logout(served: Running) -> None:
    """The server forgets the session; deleting the cookie would only change the browser."""
    token = new_session(served, "vera")
    with client(served, token) as http:
        response = post(http, "/console/logout")

    assert 303 == response.status_code
    assert not is_logged_in(served, token)
    with client(served, token) as http:
        assert 401 == http.get(HOME, headers={"accept": "text/event-stream"}).status_code


def test_a_logout_closes_the_event_streams(served: Running) -> None:
    """An open page learns nothing more."""
    token = new_session(served, "vera")
    with client(served, token) as http, http.stream("GET", HOME, headers={"accept": "text/event-stream"}) as stream:
        with client(served, token) as other:
            post(other, "/console/logout")
        last = "".join(stream.iter_text())

    assert "event: ended" in last


@pytest.mark.parametrize("key", ["", "wrong", SECRETS["olga"] + "x", SECRETS["olga"][:-1], "\0", "ключ", "a" * 5000])
def test_a_wrong_key_opens_no_session(key: str, lonely: Running) -> None:
    """The answer does not repeat what was typed."""
    with client(lonely) as http:
        response = log_in(http, key)

    assert response.status_code in (403, 429)
    assert "set-cookie" not in response.headers
    assert not key.strip("\0") or key not in response.text


def test_an_api_key_of_a_team_opens_no_session(served: Running) -> None:
    """Only admin keys do."""
    with client(served) as http:
        assert 403 == log_in(http, served.key).status_code


def test_guessing_keys_is_slowed_down(lonely: Running) -> None:
    """After ten wrong keys an address has to wait, also with the right key."""
    with client(lonely) as http:
        statuses = [log_in(http, f"guess-{number}").status_code for number in range(12)]
        right = log_in(http, SECRETS["olga"])

    assert [429, 429] == statuses[10:]
    assert 429 == right.status_code
    assert int(right.headers["retry-after"]) > 0


@pytest.mark.parametrize(
    "place", ["https://evil.test/", "//evil.test", "/\\evil.test", "/console/../..//evil.test", "javascript:alert(1)"]
)
def test_a_login_leads_to_no_other_site(place: str, served: Running) -> None:
    """The address behind the login is one of the gateway."""
    with client(served) as http:
        location = log_in(http, SECRETS["vera"], next=place).headers["location"]

    assert urljoin(served.url, location).startswith(f"{served.url}/")


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway whose sessions last at most 12 s, and 3 s without use."""
    console = {"enabled": True, "session_idle_s": 3, "session_max_s": 12}
    with serving(tmp_path_factory.mktemp("hasty"), {"console": console}) as running:
        yield running


def test_a_session_ends_when_it_is_not_used(hasty: Running) -> None:
    """Its idle time is over, although an open page has asked for news all the time."""
    began, token = time.monotonic(), new_session(hasty, "vera")
    with client(hasty, token) as http, http.stream("GET", HOME, headers={"accept": "text/event-stream"}) as news:
        last = "".join(news.iter_text())

    assert "event: ended" in last
    assert 3 <= time.monotonic() - began < 12
    assert not is_logged_in(hasty, token)


def test_a_session_ends_although_it_is_used(hasty: Running) -> None:
    """A stolen cookie cannot be kept alive."""
    began, token = time.monotonic(), new_session(hasty, "vera")
    while is_logged_in(hasty, token):
        time.sleep(0.3)

    assert 12 <= time.monotonic() - began


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("localhost", 200),
        ("evil.test", 421),
        ("127.0.0.1.evil.test", 421),
        ("localhost.evil.test:8080", 421),
        ("evil.test\t127.0.0.1", 400),
        ("", 400),
    ],
)
def test_only_known_hosts_are_answered(host: str, status: int, served: Running) -> None:
    """A name of an attacker that points to this address (DNS rebinding) reads nothing."""
    assert status == status_with(served, {"host": host})


def test_forwarded_hosts_do_not_count(served: Running) -> None:
    """A header that any client can send opens nothing."""
    assert 421 == status_with(served, {"host": "evil.test", "x-forwarded-host": "127.0.0.1"})


@pytest.mark.parametrize("path", [HOME, LOGIN, "/console/static/none.js", "/console/no-such-page", "/console/logout"])
def test_every_answer_has_the_headers_that_protect_it(path: str, served: Running) -> None:
    """Also errors and redirects. The policy has no exception for inline scripts, styles or other sites."""
    with client(served) as http:
        headers = http.get(path).headers
    policy = {each.strip().partition(" ")[0]: each.strip().partition(" ")[2] for each in headers[POLICY].split(";")}

    assert "'none'" == policy["default-src"]
    assert "'self'" == policy["script-src"]
    assert "'none'" == policy["frame-ancestors"]
    assert not re.search(r"unsafe|\*|https?:|nonce|sha\d", headers[POLICY])
    assert "nosniff" == headers["x-content-type-options"]
    assert "no-referrer" == headers["referrer-policy"]
    assert "same-origin" == headers["cross-origin-opener-policy"]


POLICY = "content-security-policy"


def test_pages_are_not_kept_by_browsers_and_proxies(served: Running) -> None:
    """A page would be visible after logout."""
    with client(served, new_session(served, "vera")) as http:
        assert "no-store" == http.get(HOME).headers["cache-control"]


def test_no_page_contains_a_secret(served: Running, addresses: dict[str, str]) -> None:
    """Neither admin keys nor keys of teams."""
    secrets = [*SECRETS.values(), served.key]
    with client(served, new_session(served, "olga")) as http:
        for address in addresses.values():
            text = http.get(address).text
            assert [] == [secret for secret in secrets if secret in text]


def test_a_form_of_another_session_is_refused(served: Running) -> None:
    """The token in a form belongs to one session."""
    mine, other = new_session(served, "vera"), new_session(served, "vera")
    with client(served, other) as http:
        foreign = csrf_token(http)
    with client(served, mine) as http:
        response = http.post("/console/logout", data={"csrf": foreign}, headers=SAME_ORIGIN)

    assert 403 == response.status_code
    assert is_logged_in(served, mine)

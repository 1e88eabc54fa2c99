"""Requests that another site makes the browser of a person send: each is attempted, and refused."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser

from gateway.console.all_pages import ACTIONS, SENDING
from tests.console.attacker import Site, attacker
from tests.console.people import client, csrf_token, named, new_session, window
from tests.console.processes import Running

HOSTS = ("127.0.0.1", "localhost")
"""Names of the attacker's site. The first one is of the same site as the console, so browsers send the cookie."""
PATHS = ("/console/logout", *(action.path for action in (*ACTIONS, *SENDING)))
FORM = """<!doctype html><form method="post" action="{target}"><input name="csrf" value="{csrf}"></form>
<script>document.forms[0].submit()</script>"""
FETCH = """<!doctype html><script>
fetch("{target}", {{ method: "POST", credentials: "include", mode: "no-cors",
  headers: {{ "content-type": "application/x-www-form-urlencoded" }}, body: "csrf={csrf}" }})
  .catch(() => {{}}).finally(() => {{ document.title = "sent"; }});
</script>"""
READ = """<!doctype html><script>
fetch("{target}", {{ credentials: "include" }}).then((answer) => answer.text())
  .then((text) => {{ document.title = `read ${{text.length}}`; }}, () => {{ document.title = "refused"; }});
</script>"""
FRAME = """<!doctype html><iframe src="{target}"></iframe>"""


@pytest.fixture(scope="module")
def evil() -> Iterator[Site]:
    with attacker() as site:
        yield site


def is_logged_in(running: Running, token: str) -> bool:
    with client(running, token) as http:
        return http.get("/console").status_code == 200


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("attack", [FORM, FETCH], ids=["form", "fetch"])
def test_another_site_cannot_act(attack: str, host: str, evil: Site, browser: Browser, served: Running) -> None:
    """Even if it knows the token of the session's forms."""
    token = new_session(served, "olga")
    with client(served, token) as http:
        csrf = csrf_token(http)
    evil.pages["/act"] = attack.format(target=f"{served.url}/console/logout", csrf=csrf)
    with window(browser, served, token) as page:
        page.goto(evil.address("/act", host=host))
        page.wait_for_timeout(700)

    assert is_logged_in(served, token)


@pytest.mark.parametrize("host", HOSTS)
def test_another_site_cannot_read(host: str, evil: Site, browser: Browser, served: Running) -> None:
    """The browser hides the answer from it."""
    evil.pages["/read"] = READ.format(target=f"{served.url}/console")
    with window(browser, served, new_session(served, "olga")) as page:
        page.goto(evil.address("/read", host=host))
        page.wait_for_function("() => document.title !== ''")

        assert "refused" == page.title()


def test_another_site_cannot_show_a_page_in_a_frame(evil: Site, browser: Browser, served: Running) -> None:
    """A person could be led to click on what they do not see."""
    evil.pages["/frame"] = FRAME.format(target=f"{served.url}/console")
    with window(browser, served, new_session(served, "olga")) as page:
        page.goto(evil.address("/frame", host="127.0.0.1"))
        page.wait_for_timeout(700)

        assert [] == [frame.url for frame in page.frames if frame.url.startswith(served.url)]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "https://evil.test"},
        {"origin": "null"},
    ],
    ids=str,
)
def test_each_action_refuses_requests_of_other_sites(
    headers: dict[str, str], path: str, served: Running, session: Callable[[str], str]
) -> None:
    """Requests of no form, and requests that claim to come from nowhere, are refused, too."""
    with client(served, session("olga")) as http:
        csrf = csrf_token(http)
        response = http.post(named(path), data={"csrf": csrf}, headers=headers)

    assert 403 == response.status_code
    assert is_logged_in(served, session("olga"))


@pytest.mark.parametrize("path", PATHS)
def test_each_action_needs_the_token_of_the_session(path: str, served: Running, session: Callable[[str], str]) -> None:
    """A request from the console's own origin is not enough."""
    with client(served, session("olga")) as http:
        headers = {"sec-fetch-site": "same-origin"}
        forms = ({"x": "y"}, {"csrf": ""}, {"csrf": "x" * 43})
        statuses = [http.post(named(path), data=form, headers=headers).status_code for form in forms]

    assert [403, 403, 403] == statuses


@pytest.mark.parametrize("path", PATHS)
def test_no_action_follows_a_link(path: str, served: Running, session: Callable[[str], str]) -> None:
    """Actions need POST: a picture or a link cannot cause them."""
    with client(served, session("olga")) as http:
        status = http.get(named(path)).status_code

    assert status in (200, 404, 405)
    assert is_logged_in(served, session("olga"))

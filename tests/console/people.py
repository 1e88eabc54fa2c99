"""People who use the console: a browser with the session of an admin key, or plain HTTP requests with one."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, urldefrag, urljoin, urlsplit

import httpx
from playwright.sync_api import Browser, Page

from gateway.console.all_pages import PAGES
from tests.console.browser import COOKIE, Faults, prepared
from tests.console.processes import SECRETS, Running

SAME_ORIGIN = {"sec-fetch-site": "same-origin"}
"""What Chromium states about a form that a page of the console sends."""


def client(running: Running, token: str | None = None) -> httpx.Client:
    """Return a client that follows no redirects. *token* is the token of a session."""
    headers = {} if token is None else {"cookie": f"{COOKIE}={token}"}
    return httpx.Client(base_url=running.url, headers=headers, timeout=60)


def log_in(http: httpx.Client, secret: str, **fields: str) -> httpx.Response:
    """Send the login form."""
    return http.post("/console/login", data={"key": secret, **fields}, headers=SAME_ORIGIN)


def token_of(response: httpx.Response) -> str:
    """Return the token of the session that *response* opens."""
    assert 303 == response.status_code, response.text
    found = re.search(rf"{COOKIE}=([^;]+)", response.headers["set-cookie"])
    assert found is not None
    return found[1]


def new_session(running: Running, admin: str) -> str:
    """Return the token of a new session for the admin key *admin*."""
    with client(running) as http:
        return token_of(log_in(http, SECRETS[admin]))


@dataclass
class Links(HTMLParser):
    """Addresses of links, and hidden fields of forms, in one page."""

    page: str
    links: list[str] = field(default_factory=list)
    hidden: dict[str, str] = field(default_factory=dict)
    forms: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "a" and values.get("href"):
            self.links.append(urldefrag(urljoin(self.page, values["href"] or ""))[0])
        if tag == "form" and (values.get("method") or "get").lower() == "post":
            self.forms.append(urljoin(self.page, values.get("action") or ""))
        if tag == "input" and values.get("type") == "hidden" and values.get("name"):
            self.hidden.setdefault(values["name"] or "", values.get("value") or "")


def read(http: httpx.Client, address: str) -> Links:
    """Return the links and forms of the page *address*."""
    response = http.get(address)
    assert 200 == response.status_code, f"{address}: {response.status_code}"
    links = Links(str(response.url))
    links.feed(response.text)
    return links


def csrf_token(http: httpx.Client, address: str = "/console") -> str:
    """Return the token that the forms of the client's session contain."""
    return read(http, address).hidden["csrf"]


def named(path: str, value: str = "x") -> str:
    """Return *path* with *value* for each variable part."""
    return "/".join(quote(value, safe="") if part.startswith("{") else part for part in path.split("/"))


def post(http: httpx.Client, path: str, **fields: str) -> httpx.Response:
    """Send a form as a page of the console does."""
    return http.post(path, data={"csrf": csrf_token(http), **fields}, headers=SAME_ORIGIN)


def patterns() -> dict[str, re.Pattern[str]]:
    """Return a pattern of the addresses of each page, by the path of the page."""
    return {page.path: re.compile(re.sub(r"\{[^}]*\}", "[^/]+", page.path)) for page in PAGES}


def addresses(running: Running, token: str) -> dict[str, str]:
    """Follow the links of the console, and return the first address found for each page, by the path of the page."""
    found: dict[str, str] = {}
    with client(running, token) as http:
        waiting = ["/console"]
        while waiting:
            address = waiting.pop(0)
            for link in [urljoin(running.url, address), *read(http, address).links]:
                parts = urlsplit(link)
                if f"{parts.scheme}://{parts.netloc}" != running.url:
                    continue
                for name, pattern in patterns().items():
                    if name not in found and pattern.fullmatch(parts.path):
                        found[name] = link.removeprefix(running.url)
                        waiting.append(found[name])
    return found


@contextmanager
def window(
    browser: Browser, running: Running, token: str | None = None, *, faults: Faults | None = None, **options: Any
) -> Iterator[Page]:
    """Open a page of *running* in a new profile. *token* is the token of a session, *options* are Playwright's."""
    context = prepared(browser.new_context(base_url=running.url, **options))
    try:
        if token is not None:
            cookie = {"name": COOKIE, "value": token, "domain": urlsplit(running.url).hostname, "path": "/"}
            context.add_cookies([{**cookie, "secure": True, "httpOnly": True, "sameSite": "Strict"}])
        page = context.new_page()
        if faults is not None:
            faults.watch(page)
        yield page
    finally:
        context.close()

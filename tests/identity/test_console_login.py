"""Login to the console with a real OpenID provider."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import yaml

from benchmarks.processes import GATEWAY_COMMAND, Processes
from tests.identity.conftest import ADMIN, GROUPS, gateway_settings
from tests.identity.provider import CONSOLE, CONSOLE_SECRET, Browser, Provider, lasting_port, query_of

SAME = {"sec-fetch-site": "same-origin"}
START = "/console/login/with/provider"
SESSION = "__Host-warmgate-console"


@dataclass
class Window:
    """Window of a browser at the console. It keeps cookies for https, as browsers do on this machine."""

    url: str
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str) -> httpx.Response:
        return self._send("GET", path)

    def post(self, path: str, **fields: str) -> httpx.Response:
        return self._send("POST", path, fields)

    def _send(self, method: str, path: str, fields: dict[str, str] | None = None) -> httpx.Response:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        with httpx.Client(base_url=self.url, trust_env=False, timeout=60) as http:
            answer = http.request(method, path, data=fields, headers={**SAME, "cookie": cookie})
        for line in answer.headers.get_list("set-cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
        return answer

    def sign_in(self, provider: Provider, user: str) -> str:
        """Begin a login, sign in at the provider as *user*, and return the address to which the provider leads."""
        start = self.get(START)
        assert 303 == start.status_code, start.text
        person = Browser(provider, user)
        back = person.visit(start.headers["location"])
        person.close()
        assert back.startswith(f"{self.url}/console/login/callback?")
        return back


@dataclass(frozen=True)
class Console:
    url: str
    provider: Provider

    def window(self) -> Window:
        return Window(self.url)


@pytest.fixture
def console(processes: Processes, worker: str, tmp_path: Path) -> Iterator[Console]:
    port = lasting_port()
    url = f"http://127.0.0.1:{port}"
    provider = Provider(
        processes,
        tmp_path,
        GROUPS,
        console_redirects=[f"{url}/console/login/callback"],
        console_logouts=[f"{url}/console/login"],
    )
    provider.start()
    settings = gateway_settings(provider, tmp_path, worker)
    settings["server"] = {"port": port}
    settings["console"] = {"enabled": True}
    settings["identity"]["issuers"][0] |= {
        "console": {"client_id": CONSOLE, "secret": CONSOLE_SECRET, "public_url": url},
    }
    config = tmp_path / "gateway.yaml"
    config.write_text(yaml.safe_dump(settings))
    child = processes.start(tmp_path.name, [*GATEWAY_COMMAND, "--config", str(config)])
    child.wait_for_ready_line(timeout_s=120)
    yield Console(url, provider)
    child.stop(timeout_s=60)
    if provider.is_running:
        provider.stop()


def test_an_owner_logs_in_works_and_logs_out_at_both_places(console: Console) -> None:
    window = console.window()
    answer = window.get(window.sign_in(console.provider, "olga"))
    assert (200, "0; url=/console") == (answer.status_code, answer.headers["refresh"])
    page = window.get("/console")
    assert '<span class="name">oidc:provider:olga</span> <span class="tag">owner</span>' in page.text

    csrf = re.search(r'name="csrf" value="([^"]+)"', page.text)
    assert csrf is not None
    created = window.post("/console/do/create-team", csrf=csrf[1], name="made-by-olga")
    assert 303 == created.status_code, created.text
    copied = Window(console.url, dict(window.cookies))
    out = window.post("/console/logout", csrf=csrf[1])
    assert 303 == copied.get("/console").status_code

    url = out.headers["refresh"].removeprefix("0; url=")
    assert url.startswith(f"{console.provider.url}/session/end?")
    person = Browser(console.provider, "olga")
    assert f"{console.url}/console/login" == person.visit(url)
    person.close()
    with httpx.Client(base_url=console.url, trust_env=False, timeout=60) as http:
        audit = http.get("/admin/v1/audit", headers={"authorization": f"Bearer {ADMIN}"}).json()["data"]
    assert ["logout", "create", "login"] == [entry["action"] for entry in audit if entry["who"] == "oidc:provider:olga"]


def test_a_person_without_a_role_gets_no_session(console: Console) -> None:
    window = console.window()
    answer = window.get(window.sign_in(console.provider, "alice"))

    assert (403, True) == (answer.status_code, "gives it a role" in answer.text)
    assert SESSION not in window.cookies


def test_a_login_and_a_code_are_used_once_and_by_the_browser_that_began(console: Console) -> None:
    window, stranger, thief = (console.window() for _ in range(3))
    back = window.sign_in(console.provider, "olga")
    assert 403 == stranger.get(back).status_code

    begun = dict(window.cookies)
    assert 200 == window.get(back).status_code
    assert 403 == Window(console.url, begun).get(back).status_code

    # The code again, in a login that the thief has begun: the verifier is another, and the code is used.
    state = query_of(thief.get(START).headers["location"])["state"]
    used = query_of(back)
    answer = thief.get(f"/console/login/callback?code={used['code']}&state={state}&iss={used['iss']}")
    assert (403, True) == (answer.status_code, "did not accept the code" in answer.text)
    assert [SESSION not in each.cookies for each in (stranger, thief)] == [True, True]


def test_a_code_that_another_browser_did_not_use_is_bound_to_its_own_login(console: Console) -> None:
    """Code injection: the code is fresh, but its challenge belongs to the verifier of the victim."""
    victim, thief = console.window(), console.window()
    fresh = query_of(victim.sign_in(console.provider, "olga"))
    state = query_of(thief.get(START).headers["location"])["state"]
    answer = thief.get(f"/console/login/callback?code={fresh['code']}&state={state}&iss={fresh['iss']}")

    assert (403, True) == (answer.status_code, "did not accept the code" in answer.text)
    assert SESSION not in thief.cookies


def test_a_revocation_ends_the_session(console: Console) -> None:
    window = console.window()
    window.get(window.sign_in(console.provider, "olga"))
    assert 200 == window.get("/console").status_code
    with httpx.Client(base_url=console.url, trust_env=False, timeout=60) as http:
        body = {"issuer": "provider", "scope": "subject", "value": "olga"}
        headers = {"authorization": f"Bearer {ADMIN}"}
        assert 201 == http.post("/admin/v1/revocations", json=body, headers=headers).status_code

    assert 303 == window.get("/console").status_code


def test_while_the_provider_is_down_the_page_says_so_and_an_admin_key_works(console: Console) -> None:
    console.provider.stop()
    window = console.window()
    answer = window.get(START)

    assert (503, True) == (answer.status_code, "Admin keys still work." in answer.text)
    assert 303 == window.post("/console/login", key=ADMIN).status_code
    assert 200 == window.get("/console").status_code

"""Changes that people make in the console, with their effect on requests of clients."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.batches import new_batch
from tests.console.browser import Faults
from tests.console.people import window
from tests.console.processes import Running

Token = Callable[[str], str]
EFFECT_TIMEOUT_S = 10
"""Seconds within which all parts of a gateway know a change. The answer of the console comes earlier."""


@pytest.fixture(params=[True, False], ids=["script", "no script"])
def keyboard(
    request: pytest.FixtureRequest, browser: Browser, busy: Running, session: Token, faults: Faults
) -> Iterator[Page]:
    """A page of an owner who uses only the keyboard, with and without JavaScript."""
    with window(browser, busy, session("olga"), faults=faults, java_script_enabled=request.param) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        yield page


def press(page: Page, role: str, name: str) -> None:
    """Press the enter key on the button or link *name*."""
    page.locator("main").get_by_role(role, name=name, exact=True).press("Enter")


def unfold(page: Page, summary: str) -> None:
    page.locator("summary", has_text=summary).press("Enter")


def secret_on(page: Page) -> str:
    text: str = page.locator("#secret").inner_text()
    return text.strip()


def status(running: Running, secret: str) -> int:
    """Return the status of a real request with the API key *secret*."""
    body = {"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "hi"}]}
    headers = {"authorization": f"Bearer {secret}"}
    return httpx.post(f"{running.url}/v1/chat/completions", json=body, headers=headers, timeout=60).status_code


def becomes(expected: int, running: Running, secret: str) -> bool:
    """Return whether requests with *secret* soon get the status *expected*."""
    pause = threading.Event()
    for _ in range(EFFECT_TIMEOUT_S * 5):
        if status(running, secret) == expected:
            return True
        pause.wait(0.2)
    return False


def test_a_key_lives_from_its_creation_to_its_deletion(keyboard: Page, busy: Running) -> None:
    """It works once it is made, stops while it is blocked, changes its secret, and is refused when it is deleted."""
    page = keyboard
    page.goto("/console/teams")
    press(page, "link", "blue")
    unfold(page, "Create a key")
    page.locator("#new-key").get_by_label("Project").fill("tests")
    press(page, "button", "Create the key")
    first = secret_on(page)
    assert 200 == status(busy, first)

    press(page, "link", "Open the key")
    assert first not in page.content()
    unfold(page, "Block the key")
    press(page, "button", "Block")
    expect(page.get_by_text("blocked").first).to_be_visible()
    assert becomes(401, busy, first)
    unfold(page, "Unblock the key")
    press(page, "button", "Unblock")
    assert becomes(200, busy, first)

    unfold(page, "Rotate the secret")
    press(page, "button", "Create a new secret")
    second = secret_on(page)
    assert first != second
    assert becomes(401, busy, first)
    assert 200 == status(busy, second)

    press(page, "link", "Open the key")
    unfold(page, "Delete the key")
    page.locator("#delete button").press("Enter")
    expect(page.locator("h1")).to_have_text("Team blue")
    assert becomes(401, busy, second)


def test_a_rotated_key_keeps_its_former_secret_for_a_while(keyboard: Page, busy: Running) -> None:
    """Clients get the time that was typed to take the new secret."""
    made = busy.admin("POST", "/keys", {"team": "blue"})
    page = keyboard
    page.goto(f"/console/keys/{made['id']}")
    unfold(page, "Rotate the secret")
    page.get_by_label("Seconds for which the former secret stays valid").fill("600")
    press(page, "button", "Create a new secret")

    assert [200, 200] == [status(busy, secret_on(page)), status(busy, made["secret"])]


def test_a_team_gets_limits_that_apply(keyboard: Page, busy: Running) -> None:
    """A limit of one request per minute refuses the second, and a blocked team all of them."""
    name = f"new-{hash(keyboard) % 10**6}"
    page = keyboard
    page.goto("/console/teams")
    unfold(page, "Create a team")
    page.locator("#new-team").get_by_label("Name", exact=True).fill(name)
    page.locator("#new-team").get_by_label("Requests per minute").fill("1")
    press(page, "button", "Create the team")
    expect(page.locator("h1")).to_have_text(f"Team {name}")
    secret = busy.new_key(name)

    assert [200, 429] == [status(busy, secret), status(busy, secret)]


@pytest.mark.parametrize("name", ["", "<script>", "with space", "ключ", "x" * 64, "../teams"])
def test_an_invalid_name_changes_nothing(name: str, browser: Browser, busy: Running, session: Token) -> None:
    """The page says what is wrong with it, also if the browser has not checked it."""
    before = busy.admin("GET", "/teams")["data"]
    with window(browser, busy, session("olga")) as page:
        page.goto("/console/teams")
        unfold(page, "Create a team")
        page.locator("#new-team form").evaluate("form => { form.noValidate = true; }")
        page.locator("#new-team").get_by_label("Name", exact=True).evaluate(
            "(field, text) => { field.value = text; }", name
        )
        press(page, "button", "Create the team")

        expect(page.locator(".notice.failed")).to_be_visible()
    assert before == busy.admin("GET", "/teams")["data"]


@dataclass
class Stream:
    """A long answer that is read in the background."""

    running: Running
    worker: str = ""
    tokens: int = 0
    ended: bool = False
    _started: threading.Event = field(default_factory=threading.Event)

    def read(self) -> None:
        body = {
            "model": "tiny",
            "stream": True,
            "max_tokens": 600,
            "ignore_eos": True,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": "Go on and on."}],
        }
        headers = {"authorization": f"Bearer {self.running.key}"}
        address = f"{self.running.url}/v1/chat/completions"
        with httpx.stream("POST", address, json=body, headers=headers, timeout=60) as response:
            self.worker = response.headers["x-warmgate-worker"]
            for line in response.iter_lines():
                self._note(line.removeprefix("data: "))

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self.read, daemon=True)
        thread.start()
        assert self._started.wait(30)
        return thread

    def _note(self, data: str) -> None:
        if data == "[DONE]":
            self.ended = True
        elif data:
            self.tokens = (json.loads(data).get("usage") or {}).get("completion_tokens", 0)
            self._started.set()


def test_drain_moves_streams_and_undrain_brings_requests_back(
    browser: Browser, busy: Running, session: Token, faults: Faults
) -> None:
    """A stream of a drained worker ends on another one, without a gap, while the page shows the worker's state live."""
    stream = Stream(busy)
    thread = stream.start()
    with window(browser, busy, session("otto"), faults=faults) as page:
        page.goto("/console/models")
        page.on("dialog", lambda dialog: dialog.accept())
        row = page.locator("tr", has=page.get_by_role("rowheader", name=stream.worker, exact=True))
        row.get_by_role("button", name="Drain", exact=False).press("Enter")
        expect(row.locator(".state")).to_have_text("drained", timeout=60_000)
        is_running = not stream.ended

        thread.join(60)
        assert is_running
        assert stream.ended
        assert 600 == stream.tokens
        row.get_by_role("button", name="Undrain", exact=False).press("Enter")
        expect(row.locator(".state")).to_have_text("up", timeout=60_000)

    actions = [each["action"] for each in busy.admin("GET", "/audit", limit=50)["data"] if each["who"] == "otto"]
    assert ["undrain", "drain"] == actions[:2]


def test_a_value_changes_without_a_reload(browser: Browser, served: Running, session: Token, faults: Faults) -> None:
    """The number of requests in progress on an open page counts a stream that begins later, and its end."""
    with window(browser, served, session("vera"), faults=faults) as page:
        page.goto("/console/models")
        page.evaluate("() => { window.isSameDocument = true; }")
        stream = Stream(served)
        thread = stream.start()
        row = page.locator("tr", has=page.get_by_role("rowheader", name=stream.worker, exact=True))
        expect(row.locator(".number").first).not_to_have_text("0")
        thread.join(60)

        assert page.evaluate("() => window.isSameDocument")


def test_a_batch_is_cancelled(keyboard: Page, busy: Running) -> None:
    """Its lines that have not started never run."""
    key = busy.new_key("blue")
    batch_id = new_batch(busy.url, key, lines=200, max_tokens=4000)
    page = keyboard
    page.goto(f"/console/batches/{batch_id}?team=blue")
    unfold(page, "Cancel the batch")
    press(page, "button", "Cancel this batch")
    expect(page.locator(".notices")).to_contain_text(f"The batch {batch_id} is canceled.")

    answer = httpx.get(f"{busy.url}/v1/batches/{batch_id}", headers={"authorization": f"Bearer {key}"}, timeout=60)
    assert answer.json()["status"] in {"cancelling", "cancelled"}
    page.goto(f"/console/batches/{batch_id}?team=blue")
    assert 0 == page.get_by_role("button", name="Cancel this batch", exact=True).count()


def test_the_page_of_a_batch_follows_it(browser: Browser, busy: Running, session: Token, faults: Faults) -> None:
    """It shows the end of the batch without a reload."""
    batch_id = new_batch(busy.url, busy.new_key("blue"))
    with window(browser, busy, session("olga"), faults=faults) as page:
        page.goto(f"/console/batches/{batch_id}?team=blue")
        page.evaluate("() => { window.isSameDocument = true; }")

        expect(page.locator("main .state").first).to_have_text("completed", timeout=60_000)
        assert page.evaluate("() => window.isSameDocument")
        page.goto("/console/batches?team=blue")
        expect(page.get_by_role("link", name=f"Batch {batch_id}")).to_be_visible()

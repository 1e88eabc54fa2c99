"""The page What if: start, follow, share and cancel a replay, with the keyboard, with and without JavaScript."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.browser import Faults, severe_findings
from tests.console.people import window
from tests.console.processes import Running

pytestmark = pytest.mark.timeout(400)
Token = Callable[[str], str]
WHAT_IF = "/console/what-if"
TIMEOUT_MS = 240_000
"""Milliseconds within which a replay ends. It has the lowest priority on a machine that also sends requests."""


@pytest.fixture(params=[True, False], ids=["script", "no script"])
def keyboard(
    request: pytest.FixtureRequest, browser: Browser, busy: Running, session: Token, faults: Faults
) -> Iterator[Page]:
    """A page of an operator who uses only the keyboard, with and without JavaScript."""
    with window(browser, busy, session("otto"), faults=faults, java_script_enabled=request.param) as page:
        yield page


def wait_for_the_end(page: Page) -> None:
    """Wait until the replay on *page* is done. Without JavaScript, a person loads the page again."""
    done = page.locator('[data-live="progress"] .state', has_text="done")
    for _ in range(TIMEOUT_MS // 1000):
        if done.count() == 1:
            return
        page.wait_for_timeout(1000)
        if page.locator("noscript a").count() == 1:
            page.reload()
    expect(done).to_be_visible()


def rows(page: Page) -> list[str]:
    """Return the names of the rows of the comparison."""
    found: list[str] = page.locator('[data-live="result"] tbody th').all_inner_texts()
    return found


def test_recorded_requests_are_replayed(keyboard: Page, browser: Browser, busy: Running, session: Token) -> None:
    """The result appears while the page is open, and a viewer opens it by its address."""
    page = keyboard
    page.goto(WHAT_IF)
    page.get_by_label("Strategy of alternative 1").select_option("round_robin")
    page.get_by_label("Workers of alternative 2").fill("4")
    page.get_by_label("Factor of the cache size of alternative 2").fill("2")
    page.get_by_role("button", name="Start the replay").press("Enter")
    expect(page.get_by_text("The replay has started.")).to_be_visible()
    address = page.url.removeprefix(busy.url)
    wait_for_the_end(page)

    assert ["Present, measured", "Present, replayed", "Alternative 1", "Alternative 2"] == rows(page)
    assert "workers-2=4&cache-2=2" in urlsplit(address).query
    assert "4" == page.get_by_label("Workers of alternative 2").input_value()
    with window(browser, busy, session("vera")) as other:
        other.goto(address)

        assert rows(page) == rows(other)
        assert 0 == other.get_by_role("button", name="Start the replay").count()


def test_a_result_is_accessible_and_fits_on_a_phone(
    browser: Browser, busy: Running, session: Token, faults: Faults
) -> None:
    """The tests of all pages open this page when there may be no result yet."""
    busy.ask("POST", "/what-if", {"alternatives": [{"strategy": "session"}]}, by="otto")
    with window(browser, busy, session("otto"), faults=faults, viewport={"width": 390, "height": 844}) as page:
        page.goto(WHAT_IF)
        wait_for_the_end(page)
        page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        found = {}
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            found[scheme] = severe_findings(page)

        assert {"light": [], "dark": []} == found
        assert 390 == page.evaluate("() => Math.max(innerWidth, document.documentElement.scrollWidth)")


def test_a_trace_is_uploaded(keyboard: Page, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    lines = [
        {"timestamp": 1000 * number, "input_length": 600, "output_length": 20, "hash_ids": [1, 2]}
        for number in range(40)
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    page = keyboard
    page.goto(WHAT_IF)
    page.locator("summary", has_text="uploaded trace").press("Enter")
    page.locator("#trace").set_input_files(path)
    page.get_by_role("button", name="Start the replay").press("Enter")
    expect(page.get_by_role("heading", name="Uploaded trace of tiny")).to_be_visible()
    wait_for_the_end(page)

    assert ["Alternative 1"] == rows(page)


def test_a_file_that_is_no_trace_is_explained(keyboard: Page, tmp_path: Path) -> None:
    """The values of the form stay. A script in the file does not run."""
    path = tmp_path / "trace.jsonl"
    path.write_text('{"<script>probed=1</script>": 1}')
    page = keyboard
    page.goto(WHAT_IF)
    page.get_by_label("Workers of alternative 3").fill("7")
    page.locator("summary", has_text="uploaded trace").press("Enter")
    page.locator("#trace").set_input_files(path)
    page.get_by_role("button", name="Start the replay").press("Enter")

    expect(page.locator(".notice.failed")).to_contain_text("'trace' is not valid")
    assert "7" == page.get_by_label("Workers of alternative 3").input_value()


def test_a_running_replay_is_cancelled(keyboard: Page, tmp_path: Path) -> None:
    """Its trace is long enough to run for many seconds."""
    path = tmp_path / "trace.jsonl"
    lines = [
        {
            "timestamp": 20 * number,
            "input_length": 3000,
            "output_length": 200,
            "hash_ids": [7 * number + i for i in range(6)],
        }
        for number in range(40_000)
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    page = keyboard
    page.goto(WHAT_IF)
    page.locator("summary", has_text="uploaded trace").press("Enter")
    page.locator("#trace").set_input_files(path)
    page.get_by_role("button", name="Start the replay").press("Enter")
    page.get_by_role("button", name="Cancel the replay").press("Enter")

    expect(page.get_by_text("The replay was cancelled, so it has no result.")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel the replay")).to_have_count(0)

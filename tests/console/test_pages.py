"""Every page of the console in a real browser."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from gateway.console.all_pages import PAGES
from tests.console.browser import Faults, severe_findings
from tests.console.people import window
from tests.console.processes import Running

PATHS = [page.path for page in PAGES]
STILL = ("/console/what-if", "/console/batches", "/console/batches/{id}")
"""Live pages that change only with a replay or a batch: test_replays.py and test_changes.py."""
LIVE = [page.path for page in PAGES if page.live and page.path not in STILL]
"""Live pages whose parts change by themselves."""
SCHEMES = ("light", "dark")
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1440, "height": 900}
Token = Callable[[str], str]

OUTLINE = """
() => {
  const element = document.activeElement;
  if (element === null || element === document.body) return null;
  const style = getComputedStyle(element);
  const isVisible = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
  const box = element.getBoundingClientRect();
  element.dataset.wasFocused = "yes";
  return { isVisible, isInView: box.bottom > 0 && box.top < innerHeight, html: element.outerHTML.slice(0, 200) };
}
"""
MISSED = """
() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")]
  .filter((each) => each.checkVisibility() && !each.disabled && each.dataset.wasFocused !== "yes")
  .filter((each) => each.type !== "radio")
  .map((each) => each.outerHTML.slice(0, 200))
"""


UNFOLD = "() => document.querySelectorAll('details').forEach((each) => { each.open = true; })"


def opened(page: Page, address: str) -> Page:
    response = page.goto(address)
    assert response is not None
    assert 200 == response.status
    return page


def test_links_lead_to_every_page(addresses: dict[str, str]) -> None:
    """A person who starts on the overview reaches each page without typing an address."""
    assert sorted(PATHS) == sorted(addresses)


@pytest.mark.parametrize("path", PATHS)
def test_a_page_opens(
    path: str, browser: Browser, busy: Running, session: Token, addresses: dict[str, str], faults: Faults
) -> None:
    """It has a title and one heading, and the browser reports neither errors nor violations of the policy."""
    with window(browser, busy, session("olga"), faults=faults, viewport=DESK) as page:
        opened(page, addresses[path])
        page.wait_for_timeout(300)

        assert page.title().endswith(" · Warmgate")
        assert 1 == page.locator("h1").count()
        assert 1 == page.locator("main").count()


@pytest.mark.parametrize("path", PATHS)
def test_a_page_needs_no_javascript(
    path: str, browser: Browser, busy: Running, session: Token, addresses: dict[str, str], faults: Faults
) -> None:
    """Without it, the page has the same heading and the same tables."""
    with window(browser, busy, session("olga"), faults=faults) as page:
        opened(page, addresses[path])
        expected = page.locator("h1").inner_text(), page.locator("main table caption").all_text_contents()
    with window(browser, busy, session("olga"), faults=faults, java_script_enabled=False) as page:
        opened(page, addresses[path])
        plain = page.locator("h1").inner_text(), page.locator("main table caption").all_text_contents()

    assert expected == plain


@pytest.mark.parametrize("path", PATHS)
def test_a_page_fits_on_a_phone(
    path: str, browser: Browser, busy: Running, session: Token, addresses: dict[str, str], faults: Faults
) -> None:
    """Wide tables scroll within themselves, not the page."""
    with window(browser, busy, session("olga"), faults=faults, viewport=PHONE) as page:
        opened(page, addresses[path])

        assert 390 == page.evaluate("() => Math.max(innerWidth, document.documentElement.scrollWidth)")


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_accessible(
    path: str, browser: Browser, busy: Running, session: Token, addresses: dict[str, str], faults: Faults
) -> None:
    """axe-core has no serious and no critical findings, in light and in dark colors, on a phone and on a desk."""
    with window(browser, busy, session("olga"), faults=faults) as page:
        opened(page, addresses[path])
        page.evaluate(UNFOLD)
        found = {}
        for scheme in SCHEMES:
            for size in (PHONE, DESK):
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                page.set_viewport_size(size)
                found[scheme, size["width"]] = severe_findings(page)

        assert {} == {view: findings for view, findings in found.items() if findings}


@pytest.mark.parametrize("path", PATHS)
def test_the_keyboard_reaches_everything(
    path: str, browser: Browser, busy: Running, session: Token, addresses: dict[str, str], faults: Faults
) -> None:
    """The tab key visits each link, button and field, and each shows that it has the focus."""
    with window(browser, busy, session("olga"), faults=faults, viewport=DESK) as page:
        opened(page, addresses[path])
        pause = page.locator("[data-pause]")
        if pause.is_visible():  # parts of the page are replaced otherwise, with the marks of this test
            pause.press("Enter")
            page.locator("body").evaluate("body => document.activeElement.blur()")
        page.evaluate(UNFOLD)
        limit = 20 + page.locator("a, button, input, select, textarea, summary, [tabindex]").count()
        unseen = []
        for _ in range(limit):
            page.keyboard.press("Tab")
            focus = page.evaluate(OUTLINE)
            if focus is not None and not (focus["isVisible"] and focus["isInView"]):
                unseen.append(focus["html"])

        assert [] == unseen
        assert [] == page.evaluate(MISSED)


@pytest.mark.parametrize("path", LIVE)
def test_a_live_page_gets_its_parts_without_a_reload(
    path: str, browser: Browser, busy: Running, session: Token, addresses: dict[str, str], faults: Faults
) -> None:
    """The page says that it is live, and a part that has changed is replaced while the document stays."""
    names = next(list(page.live) for page in PAGES if page.path == path)
    with window(browser, busy, session("olga"), faults=faults) as page:
        opened(page, addresses[path])
        page.evaluate("() => { window.isSameDocument = true; }")
        for name in names:
            part = page.locator(f'[data-live="{name}"]')
            part.evaluate("part => part.insertAdjacentElement('afterbegin', document.createElement('s'))")
        page.wait_for_function(
            "count => document.querySelectorAll('[data-live] > s').length < count", arg=len(names), timeout=60_000
        )

        expect(page.locator("[data-live-state] [role=status]")).to_have_text("Live")
        assert page.evaluate("() => window.isSameDocument")

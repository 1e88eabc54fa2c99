"""Chromium, driven by Playwright, with a record of everything on a page that is wrong."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Response, expect

CHROMIUM: Final = "/usr/bin/chromium"
ARGUMENTS: Final = ("--no-sandbox", "--disable-gpu", "--force-color-profile=srgb", "--font-render-hinting=none")
AXE_SHA256: Final = "84494fec757e4710dc751c8d7a636e457f4532f08f85c86dc9070133fbff53bc"
"""Digest of axe.min.js in the pinned version of axe-playwright-python, which contains axe-core 4.12.1."""
WITHIN_MS: Final = 60_000
"""Time that a page has for what a test expects of it."""
COOKIE: Final = "__Host-warmgate-console"
WATCH: Final = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`CSP: ${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
});
for (const name of ["alert", "confirm", "prompt", "print"]) {
  const former = window[name].bind(window);
  window[name] = (...values) => { console.info(`called ${name}`); return former(...values); };
}
Object.defineProperty(window, "probed", { set: (value) => console.error(`A probe ran: ${value}`) });
"""
"""Script that every page runs first. It reports violations of the content security policy, and probes that run."""


@dataclass
class Faults:
    """Errors in the console of the browser, violations of the policy, exceptions, and failed requests."""

    found: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.found.append(f"exception: {error}"))
        page.on("response", self._response)

    def watch_probes(self, page: Page) -> None:
        """Record probes that run and dialogs, on pages that may be refused."""
        page.on("console", self._probe)
        page.on("response", self._response)

    def _probe(self, message: ConsoleMessage) -> None:
        if message.text.startswith(("A probe ran", "CSP", "called")):
            self.found.append(message.text)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") or message.text.startswith("called"):
            self.found.append(f"{message.type}: {message.text}")

    def _response(self, response: Response) -> None:
        if response.status >= 500:
            self.found.append(f"{response.status}: {response.url}")


@contextmanager
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """Start the Chromium that Debian installed."""
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
    try:
        yield browser
    finally:
        browser.close()


def prepared(context: BrowserContext) -> BrowserContext:
    """Return *context*, changed so that its pages report violations and probes."""
    context.set_default_timeout(WITHIN_MS)
    expect.set_options(timeout=WITHIN_MS)
    context.add_init_script(WATCH)
    return context


def axe_script() -> str:
    """Return the source of axe-core."""
    script = (resources.files("axe_playwright_python") / "axe.min.js").read_bytes()
    assert AXE_SHA256 == hashlib.sha256(script).hexdigest()
    return script.decode("utf-8")


def severe_findings(page: Page) -> list[str]:
    """Return the findings of axe-core on *page* that are serious or critical, each with the element."""
    page.evaluate(axe_script())
    report: dict[str, Any] = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{finding['id']} ({finding['impact']}): {node['target']} {node['failureSummary']}"
        for finding in report["violations"]
        if finding["impact"] in ("serious", "critical")
        for node in finding["nodes"]
    ]

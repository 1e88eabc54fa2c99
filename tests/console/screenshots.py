"""`python -m tests.console.screenshots`: pictures of all pages of the console, light and dark, for phone and desk.

The pictures of the demo under load belong to docs/pictures/console. With ``--states`` it makes other pictures, in
build/console: an empty gateway, errors, and a gateway with 500 workers and 2,000 keys.
"""

import argparse
import base64
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.console.batches import new_batch
from tests.console.browser import chromium
from tests.console.large import large
from tests.console.load import load
from tests.console.people import addresses, new_session, window
from tests.console.processes import Running, admin_keys_variable, demo

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures" / "console"
STATES = ROOT / "build" / "console"
WIDTHS = {"phone": (390, 844), "desk": (1440, 900)}
SCHEMES = ("light", "dark")
MAX_HEIGHT = 1600
"""Maximum height of a picture in pixels. Longer pages are cut."""
QUALITY = 82
TEAMS = ("research", "support", "batch")
EXPLAIN = "explain"
"""Name of the pictures of the page Explain, which show a ranking."""
ALTERNATIVES = (
    {"strategy": "round_robin"},
    {"strategy": "kv_aware"},
    {"workers": 2},
    {"workers": 6, "cache_factor": 2},
)


def name_of(path: str) -> str:
    """Return the name of the pictures of the page *path*."""
    parts = [part for part in path.removeprefix("/console").split("/") if part]
    return "-".join("one" if part.startswith("{") else part for part in parts) or "overview"


def take(page: Page, file: Path, *, width: int, height: int, scheme: str) -> None:
    """Write a picture of the whole page, but at most `MAX_HEIGHT` pixels of it."""
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    page.evaluate("() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
    tall = int(page.evaluate("() => document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": width, "height": min(max(tall, height), MAX_HEIGHT), "scale": 1}
    options = {"format": "webp", "quality": QUALITY, "clip": clip, "captureBeyondViewport": True}
    shot = page.context.new_cdp_session(page).send("Page.captureScreenshot", options)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(base64.b64decode(shot["data"]))


def all_views(browser: Browser, running: Running, token: str, places: Mapping[str, str], into: Path) -> None:
    """Take four pictures of each page in *places*, whose keys are their names."""
    with window(browser, running, token) as page:
        for name, address in places.items():
            page.goto(address)
            if name == EXPLAIN:
                page.get_by_role("button", name="Explain", exact=True).click()
            page.wait_for_timeout(400)
            for size, (width, height) in WIDTHS.items():
                for scheme in SCHEMES:
                    take(page, into / f"{name}-{size}-{scheme}.webp", width=width, height=height, scheme=scheme)


@contextmanager
def under_load(seconds: float) -> Iterator[Running]:
    """Run the demo with the load of three teams, which has lasted for *seconds*."""
    with demo(environ=admin_keys_variable()) as running, ExitStack() as exits:
        for team in TEAMS:
            running.admin(
                "POST", "/teams", {"name": team, "limits": {"usd_per_month": 40, "tokens_per_minute": 90_000}}
            )
        keys = {team: running.new_key(team) for team in TEAMS}
        exits.enter_context(load(running.url, keys, clients=3, pause_s=0.2))
        new_batch(running.url, keys["batch"], lines=40, max_tokens=8, metadata={"job": "nightly summaries"})
        new_batch(running.url, keys["research"], file="{}\n")
        time.sleep(seconds)
        new_batch(running.url, keys["batch"], lines=400, max_tokens=100, metadata={"job": "evaluation of prompts"})
        yield running


def replay(running: Running) -> None:
    """Replay the recorded requests with other settings, and wait for the result."""
    running.admin("POST", "/what-if", {"alternatives": ALTERNATIVES})
    while running.admin("GET", "/what-if")["status"] == "running":
        time.sleep(1)


def pages(browser: Browser, into: Path, seconds: float) -> None:
    """Take pictures of each page of the demo under load, and of the login."""
    with under_load(seconds) as running:
        token = new_session(running, "olga")
        replay(running)
        places = {name_of(path): address for path, address in addresses(running, token).items()}
        all_views(browser, running, token, places, into)
        all_views(browser, running, "", {"login": "/console/login"}, into)


def states(browser: Browser, into: Path) -> None:
    """Take pictures of an empty gateway, of errors, and of a large gateway."""
    with demo(environ=admin_keys_variable()) as running:
        token = new_session(running, "olga")
        places = {f"empty-{name_of(path)}": address for path, address in addresses(running, token).items()}
        all_views(browser, running, token, {**places, "error": "/console/none"}, into)
    with tempfile.TemporaryDirectory() as folder, large(Path(folder)) as running:
        token = new_session(running, "olga")
        places = {f"large-{name_of(path)}": address for path, address in addresses(running, token).items()}
        all_views(browser, running, token, places, into)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", action="store_true", help="pictures of other states instead")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds of load before the pictures")
    parser.add_argument("--into", type=Path, help="folder of the pictures")
    options = parser.parse_args()
    with sync_playwright() as playwright, chromium(playwright) as browser:
        if options.states:
            states(browser, options.into or STATES)
        else:
            pages(browser, options.into or PICTURES, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())

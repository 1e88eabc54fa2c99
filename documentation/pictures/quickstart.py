"""Picture of the quickstart in a terminal, from a recorded session. `python -m documentation.quickstart` records it."""

from collections.abc import Iterator
from pathlib import Path

from documentation.pictures.terminal import Window, terminal

SESSION = Path(__file__).parent / "quickstart.txt"
"""Recorded session. A line that starts with ``# `` begins a window."""
MARKED = ("x-warmgate-worker", "x-warmgate-hit", "cached_tokens")


def quickstart() -> str:
    return terminal(
        list(windows(SESSION.read_text(encoding="utf-8"))),
        title="The quickstart in a terminal",
        description="The demo starts three simulated workers. The first request has no cached tokens. The same worker "
        "answers the second, equal request, and reports cached tokens.",
        marked=MARKED,
    )


def windows(session: str) -> Iterator[Window]:
    """Yield the windows of the text *session*."""
    for part in session.removeprefix("# ").split("\n# "):
        title, *lines = part.rstrip("\n").split("\n")
        yield Window(title, lines)

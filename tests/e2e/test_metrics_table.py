"""The table of metrics in docs/reference/metrics.md, held against what the gateway exposes."""

import re
from pathlib import Path

from tests.e2e.stack import stack

PAGE = Path(__file__).parents[2] / "docs/reference/metrics.md"


def documented() -> dict[str, str]:
    """Type by name, of every row."""
    page = PAGE.read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `((?:warmgate|process)_\w+)` \| (\w+) \|", page, re.MULTILINE))


def exposed(text: str) -> dict[str, str]:
    """Type by name, of every family of the exposition *text*."""
    return dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))


async def test_the_table_and_the_exposition_have_the_same_metrics() -> None:
    async with stack(1) as running:
        text = (await running.http.get("/metrics")).text

    assert documented() == exposed(text)

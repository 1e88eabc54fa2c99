"""The table of metrics in docs/reference/metrics.md, held against what the gateway exposes."""

import re
from pathlib import Path

from tests.e2e.stack import stack

PAGE = Path(__file__).parents[2] / "docs/reference/metrics.md"


def documented() -> dict[str, str]:
    """Type by name, of every row; a second name in a row ends otherwise than the first."""
    section = PAGE.read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for names, kind in re.findall(r"^\| (`(?:warmgate|process)_.+?) \| (\w+) \|", section, re.MULTILINE):
        first, *endings = re.findall(r"`(\w+)`", names)
        for ending in endings:
            start = first[: first.rindex("_engine_")]
            found[start + ending] = kind
        found[first] = kind
    return found


def exposed(text: str) -> dict[str, str]:
    """Type by name, of every family of the exposition *text*."""
    return dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))


async def test_the_table_and_the_exposition_have_the_same_metrics() -> None:
    async with stack(1) as running:
        text = (await running.http.get("/metrics")).text

    assert documented() == exposed(text)

"""Figures of benchmarks that are stored in benchmarks/results."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"

Medians = dict[str, float]
"""Median figures by the name of the row."""


def figures(name: str) -> dict[str, Any]:
    """Return all figures of the report *name*, round by round."""
    found: dict[str, Any] = _report(name)["figures"]
    return found


def medians(name: str, table: str, column: str) -> Medians:
    """Return the medians in one *column* of a *table* of the report *name*, by the first cell of the row."""
    (found,) = (each for each in _report(name)["tables"] if each["title"] == table)
    place = found["columns"].index(column)
    return {row[0]: row[place]["median"] for row in found["rows"]}


def _report(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found

"""Figures of benchmarks that are stored in benchmarks/results."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def figures(name: str) -> dict[str, Any]:
    """Return all figures of the report *name*, round by round."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["figures"]
    return found

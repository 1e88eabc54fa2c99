"""The dashboards that ship, what they ask of Prometheus, and what Grafana's own types have against them."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deploy.grafana.written import FOLDER
from tests.deploy.environment import NODE_PROJECT
from tests.deploy.tools import missing, tool

Json = dict[str, Any]

SCRIPT = Path(__file__).parent / "grafana.mjs"
NEWEST = "@grafana/schema"
TYPES = {"11": "grafana-schema-11", "12": NEWEST}
"""Packages by the version of Grafana that they are from."""
RATE_S = 30
"""What Grafana would put for `$__rate_interval` where Prometheus scrapes every 7 s."""


def dashboards() -> dict[str, Json]:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}


def panels(dashboard: Json) -> list[Json]:
    """Those that draw something."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    for name, dashboard in dashboards().items():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield f"{name}: {panel['title']}: {target['refId']}", chosen(target["expr"])


def chosen(text: str) -> str:
    """With the values that Grafana puts in while everything is chosen."""
    text = text.replace("$__rate_interval", f"{RATE_S}s").replace("$__range", "5m")
    return re.sub(r"\$[a-z_]+", ".*", text)


def faults(checked: Mapping[str, Json], types: str = NEWEST) -> list[tuple[str, str]]:
    if not (NODE_PROJECT / "node_modules" / types).is_dir():
        missing(types)
    reported = subprocess.run(
        [tool("node"), "--input-type=module", "--eval", SCRIPT.read_text(encoding="utf-8")],
        cwd=NODE_PROJECT,
        input=json.dumps({"types": types, "dashboards": dict(checked)}),
        capture_output=True,
        check=False,
        text=True,
    )
    assert 0 == reported.returncode, reported.stderr
    return [(name, sentence) for name, sentence in json.loads(reported.stdout)]

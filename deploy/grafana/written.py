"""All dashboards, and their files in the Helm chart. A test checks that the files are up to date."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.grafana.dashboard import Dashboard
from deploy.grafana.engines import ENGINES
from deploy.grafana.health import HEALTH
from deploy.grafana.overview import OVERVIEW
from deploy.grafana.routing import ROUTING
from deploy.grafana.shaping import SHAPING
from deploy.grafana.teams import TEAMS

DASHBOARDS: Sequence[Dashboard] = (OVERVIEW, ROUTING, TEAMS, HEALTH, SHAPING, ENGINES)
FOLDER = Path(__file__).parents[1] / "helm" / "warmgate" / "files" / "dashboards"


def files() -> Mapping[str, str]:
    """Return the text of each dashboard file, by file name."""
    return {
        f"{dashboard.name}.json": json.dumps(dashboard.json(), indent=2, ensure_ascii=False) + "\n"
        for dashboard in DASHBOARDS
    }


def write() -> None:
    """Write the dashboard files of the Helm chart."""
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")

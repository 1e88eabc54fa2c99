"""Grafana dashboard: rows of panels, and the variables that users choose at the top."""

from collections.abc import Sequence
from dataclasses import dataclass

from deploy.grafana.panel import SOURCE, Json, Panel

SCHEMA_VERSION = 39
"""Schema version of Grafana 11, which Grafana 12 also accepts."""
COLUMNS = 24
TAG = "warmgate"
"""Tag of all Warmgate dashboards, by which they link to each other."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Dashboard variable with the values of *label* in *series*. By default, all values are chosen."""

    name: str
    series: str
    """PromQL selector of the series."""
    title: str
    label: str = ""
    """Name of the label, or an empty string if the label has the variable's name."""

    @property
    def query(self) -> str:
        return f"label_values({self.series}, {self.label or self.name})"

    def json(self) -> Json:
        return {
            "type": "query",
            "name": self.name,
            "label": self.title,
            "datasource": dict(SOURCE),
            "query": {"query": self.query, "refId": f"choice-{self.name}"},
            "refresh": 2,  # whenever the time range changes
            "sort": 1,  # by the alphabet
            "multi": True,
            "includeAll": True,
            "allValue": ".*",  # also where there is no such label
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
            "options": [],
        }


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a dashboard: a heading, and panels from left to right."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """Grafana dashboard. *name* is the name of its file and the last part of its address in Grafana."""

    name: str
    title: str
    description: str
    choices: Sequence[Choice]
    rows: Sequence[Row]

    def json(self) -> Json:
        return {
            "uid": f"warmgate-{self.name}",
            "title": f"Warmgate / {self.title}",
            "description": self.description,
            "tags": [TAG],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,  # one crosshair for all panels
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "timepicker": {},
            "timezone": "browser",
            "fiscalYearStartMonth": 0,
            "annotations": {"list": []},
            "links": [_to_the_others()],
            "templating": {"list": [_source_choice(), *(choice.json() for choice in self.choices)]},
            "panels": self._panels(),
        }

    def _panels(self) -> list[Json]:
        made: list[Json] = []
        y = 0
        for row in self.rows:
            made.append(_heading(len(made) + 1, row.title, y))
            x, y, height = 0, y + 1, 0
            for panel in row.panels:
                if x + panel.width > COLUMNS:
                    x, y, height = 0, y + height, 0
                made.append(panel.json(len(made) + 1, x, y))
                x, height = x + panel.width, max(height, panel.height)
            y += height
        return made


def _heading(number: int, title: str, y: int) -> Json:
    place = {"h": 1, "w": COLUMNS, "x": 0, "y": y}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _to_the_others() -> Json:
    return {
        "type": "dashboards",
        "title": "Warmgate",
        "tags": [TAG],
        "asDropdown": True,
        "icon": "external link",
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "tooltip": "",
        "url": "",
    }


def _source_choice() -> Json:
    return {
        "type": "datasource",
        "name": "datasource",
        "label": "Prometheus",
        "query": "prometheus",
        "refresh": 1,
        "regex": "",
        "multi": False,
        "includeAll": False,
        "options": [],
    }

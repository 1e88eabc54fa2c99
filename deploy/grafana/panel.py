"""Panel of a Grafana dashboard: Prometheus queries, and how Grafana draws their results.

The JSON is that of Grafana's schema "dashboard", version 39: Grafana 11 writes this version, and Grafana 12 reads it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Json = dict[str, Any]

SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
"""Data source that users choose at the top of the dashboard."""
RATE = "[$__rate_interval]"
"""Grafana's variable for the range of a rate, which is at least four scrape intervals."""

ABOVE = Literal["red", "orange", "yellow", "green"]


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL expression, and the legend of its series with labels in double braces."""

    expr: str
    legend: str = "__auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Dashboard panel. *thresholds* are values with the color above each. Below the first value, the color is green."""

    title: str
    description: str
    queries: Sequence[Query]
    unit: str = "short"
    """Id of a Grafana unit."""
    kind: Literal["timeseries", "stat"] = "timeseries"
    width: int = 8
    """Width in columns. A dashboard has 24 columns."""
    is_stacked: bool = False
    most: float | None = None
    """Upper end of the axis, or None to use the highest value."""
    thresholds: Sequence[tuple[float, ABOVE]] = ()
    decimals: int | None = None
    words: Mapping[str, str] | None = None
    """Texts that a panel of the kind "stat" shows instead of values."""

    @property
    def height(self) -> int:
        return 4 if self.kind == "stat" else 8

    def json(self, number: int, x: int, y: int) -> Json:
        """Return the JSON of the panel at column *x* and row *y*. *number* is its id, unique in the dashboard."""
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": dict(SOURCE),
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            "options": _stat_options() if self.kind == "stat" else _chart_options(),
            "targets": [self._target(place, query) for place, query in enumerate(self.queries)],
        }

    def _target(self, place: int, query: Query) -> Json:
        return {
            "refId": chr(ord("A") + place),
            "datasource": dict(SOURCE),
            "editorMode": "code",
            "expr": query.expr,
            "legendFormat": query.legend,
            "instant": self.kind == "stat",
            "range": self.kind != "stat",
        }

    def _defaults(self) -> Json:
        steps: list[Json] = [{"color": "green", "value": None}]
        steps += [{"color": color, "value": value} for value, color in self.thresholds]
        is_coloured = self.kind == "stat" or bool(self.thresholds)
        defaults: Json = {
            "unit": self.unit,
            "min": 0,
            "color": {"mode": "thresholds" if self.kind == "stat" else "palette-classic"},
            "thresholds": {"mode": "absolute", "steps": steps if is_coloured else steps[:1]},
        }
        if self.most is not None:
            defaults["max"] = self.most
        if self.decimals is not None:
            defaults["decimals"] = self.decimals
        if self.words is not None:
            shown = {value: {"text": text, "index": place} for place, (value, text) in enumerate(self.words.items())}
            defaults["mappings"] = [{"type": "value", "options": shown}]
        if self.kind == "timeseries":
            defaults["custom"] = self._drawing()
        return defaults

    def _drawing(self) -> Json:
        return {
            "drawStyle": "line",
            "lineInterpolation": "linear",
            "lineWidth": 1,
            "fillOpacity": 30 if self.is_stacked else 8,
            "showPoints": "never",
            "spanNulls": False,
            "axisPlacement": "auto",
            "stacking": {"mode": "normal" if self.is_stacked else "none", "group": "A"},
            "thresholdsStyle": {"mode": "dashed" if self.thresholds else "off"},
        }


def _chart_options() -> Json:
    return {
        "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def _stat_options() -> Json:
    return {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "orientation": "auto",
        "textMode": "auto",
        "wideLayout": True,
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "showPercentChange": False,
        "percentChangeColorMode": "standard",
    }

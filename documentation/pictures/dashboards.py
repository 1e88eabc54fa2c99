"""Pictures of the Grafana dashboards, with each panel drawn from recorded answers of a real Prometheus.

`python -m tests.deploy.record_dashboards` records the answers, and `python -m documentation.pictures` draws them.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from deploy.grafana.dashboard import Dashboard, Row
from deploy.grafana.panel import Panel
from deploy.grafana.written import DASHBOARDS
from documentation.pictures.drawing import WIDTH, Canvas, Color
from documentation.pictures.grafana_units import shown
from documentation.pictures.panel_chart import PanelChart, PanelNumber, Values

RECORDED = Path(__file__).parent / "dashboards.json"
"""Answers by query, as Prometheus gave them in one run with simulated workers."""
MARGIN, GAP = 16, 16
CHART_WIDTH = (WIDTH - 2 * MARGIN - GAP) / 2
NUMBERS, NUMBER_GAP, NUMBER_HEIGHT = 4, 10, 84
"""Numbers in one line, the distance between them, and their height."""
NOTES = (
    "Answers of a real Prometheus. The workers are simulated: look at",
    "what the panels show, and not at the values.",
)


def pictures() -> dict[str, Callable[[], str]]:
    """Return the function that draws each dashboard, by the name of its picture."""
    return {f"dashboard-{dashboard.name}": partial(picture, dashboard) for dashboard in DASHBOARDS}


def picture(dashboard: Dashboard) -> str:
    """Draw *dashboard* with two charts or four numbers in one line."""
    height = 60 + 19 * len(NOTES) + sum(_height_of(row) for row in dashboard.rows)
    canvas = Canvas(height, f"Dashboard: {dashboard.title}", dashboard.description)
    canvas.text((MARGIN, 30), f"Warmgate / {dashboard.title}", size=18, bold=True)
    for number, note in enumerate(NOTES):
        canvas.text((MARGIN, 53 + 19 * number), note, color="muted", size=13)
    y = 46.0 + 19 * len(NOTES)
    for row in dashboard.rows:
        canvas.text((MARGIN, y + 24), row.title, color="ours", bold=True)
        canvas.line([(MARGIN, y + 32), (WIDTH - MARGIN, y + 32)], color="faint", width=1)
        _draw(canvas, row, y + 44)
        y += _height_of(row)
    return canvas.svg()


def unrecorded() -> list[str]:
    """Return each panel with a query that has no recorded answer, as dashboard and title."""
    return [
        f"{dashboard.name}: {panel.title}"
        for dashboard in DASHBOARDS
        for row in dashboard.rows
        for panel in row.panels
        if any(query.expr not in _recorded()["answers"] for query in panel.queries)
    ]


def _draw(canvas: Canvas, row: Row, top: float) -> None:
    numbers, charts = _parts(row)
    width = (WIDTH - 2 * MARGIN - (NUMBERS - 1) * NUMBER_GAP) / NUMBERS
    for place, number in enumerate(numbers):
        x = MARGIN + (place % NUMBERS) * (width + NUMBER_GAP)
        number.draw(canvas, (x, top + place // NUMBERS * (NUMBER_HEIGHT + NUMBER_GAP)), (width, NUMBER_HEIGHT))
    y = top + _height_of_numbers(numbers)
    for pair in _pairs(charts):
        titles = max(len(chart.titles) for chart in pair)
        for place, chart in enumerate(pair):
            chart.draw(canvas, (MARGIN + place * (CHART_WIDTH + GAP), y), CHART_WIDTH, titles)
        y += _height_of_pair(pair)


def _parts(row: Row) -> tuple[list[PanelNumber], list[PanelChart]]:
    numbers = [_number(panel) for panel in row.panels if panel.kind == "stat"]
    return numbers, [_chart(panel) for panel in row.panels if panel.kind != "stat"]


def _height_of(row: Row) -> float:
    numbers, charts = _parts(row)
    return 44 + _height_of_numbers(numbers) + sum(map(_height_of_pair, _pairs(charts)))


def _height_of_numbers(numbers: Sequence[PanelNumber]) -> float:
    return -(-len(numbers) // NUMBERS) * (NUMBER_HEIGHT + NUMBER_GAP)


def _height_of_pair(pair: Sequence[PanelChart]) -> float:
    titles = max(len(chart.titles) for chart in pair)
    return max(chart.height(titles) for chart in pair) + 20


def _pairs(charts: Sequence[PanelChart]) -> list[Sequence[PanelChart]]:
    return [charts[place : place + 2] for place in range(0, len(charts), 2)]


def _chart(panel: Panel) -> PanelChart:
    recorded = _recorded()
    series = [
        (_name(query.legend, each["labels"]), each["values"])
        for query in panel.queries
        for each in recorded["answers"].get(query.expr, ())
    ]
    return PanelChart(panel.title, panel.unit, series, f"{recorded['span_s'] / 60:g} min", panel.most)


def _number(panel: Panel) -> PanelNumber:
    answers = [each for query in panel.queries for each in _recorded()["answers"].get(query.expr, ())]
    values: Values = answers[0]["values"] if answers else ()
    if not values or values[-1] is None:
        return PanelNumber(panel.title, "no data", "muted")
    value = values[-1]
    words = panel.words or {}
    color: Color = "alert" if any(value >= start for start, _ in panel.thresholds) else "ours"
    return PanelNumber(panel.title, words.get(f"{value:g}", shown(value, panel.unit)), color)


def _name(legend: str, labels: Mapping[str, str]) -> str:
    return "" if legend == "__auto" else re.sub(r"{{(\w+)}}", lambda label: labels.get(label[1], ""), legend).strip()


@cache
def _recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found

"""`python -m tests.deploy.record_dashboards`: record what a real Prometheus answers to each panel of the dashboards.

The run is that of `test_observed.py`: two gateways, simulated engines, and a stand-in for Bedrock. One worker dies in
the middle and comes back. `python -m documentation.pictures` draws the answers. Needs prometheus and redis-server, and
takes seven minutes.
"""

import asyncio
import json
import math
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from deploy.grafana.panel import Panel
from deploy.grafana.written import DASHBOARDS
from documentation.pictures.dashboards import RECORDED
from tests.deploy.grafana import chosen
from tests.deploy.observed import Run, observed
from tests.storage import RedisServers, program

WARM_UP_S = 60
"""Seconds before the recording, so that every rate has its samples."""
SPAN_S, STEP_S = 300, 10
DIES_AT_S, LIVES_AT_S = 110, 200
"""Seconds from the beginning of the recording to the death of a worker and to its return."""
MODELS = {
    "told": "precise",
    "found": "by-dns",
    "gone": "no-worker",
    "elsewhere": "bedrock-only",
    "dear": "over-budget",
}
"""Names of models that a picture has in place of those of the test."""
ADDRESS = re.compile(r"(?:https?://)?(?:127\.0\.0\.1|localhost|\[::1\]):(\d+)")


async def record() -> dict[str, Any]:
    """Run everything, and return the answers by query, with names in place of addresses."""
    command = program()
    if command is None:
        raise FileNotFoundError("redis-server is missing: install it with apt-get")
    servers = RedisServers(command)
    try:
        with tempfile.TemporaryDirectory() as folder:
            async with observed(Path(folder), servers.started(), gateways=2) as run:
                started = await _watch(run)
                answers = {expr: await _answer(run, panel, expr, started) for panel, expr in _queries()}
                names = _Names(run)
    finally:
        servers.close()
    shown = {expr: [names.applied(each) for each in found] for expr, found in answers.items()}
    return {"span_s": SPAN_S, "step_s": STEP_S, "answers": shown}


async def _watch(run: Run) -> float:
    """Let the run go on for the time of the recording, and return the time of its beginning in Unix seconds."""
    await asyncio.sleep(WARM_UP_S)
    started = round(time.time(), 1)
    worker = run.tellers[0].worker
    await asyncio.sleep(DIES_AT_S)
    await worker.die()
    await asyncio.sleep(LIVES_AT_S - DIES_AT_S)
    await worker.live()
    await asyncio.sleep(started + SPAN_S - time.time())
    return started


def _queries() -> Iterator[tuple[Panel, str]]:
    for dashboard in DASHBOARDS:
        for row in dashboard.rows:
            for panel in row.panels:
                for query in panel.queries:
                    yield panel, query.expr


async def _answer(run: Run, panel: Panel, expr: str, started: float) -> list[dict[str, Any]]:
    """Return labels and values of each series: all values for a chart, and the last one for a number."""
    steps = 1 if panel.kind == "stat" else SPAN_S // STEP_S + 1
    end = started + SPAN_S
    found = await run.prometheus.history(chosen(expr), start=end - (steps - 1) * STEP_S, end=end, step_s=STEP_S)
    kept = {name for query in panel.queries for name in re.findall(r"{{(\w+)}}", query.legend)}
    return [
        {
            "labels": {name: value for name, value in labels.items() if name in kept},
            "values": [_rounded(values.get(round(end - (steps - 1 - step) * STEP_S, 1))) for step in range(steps)],
        }
        for labels, values in found
    ]


def _rounded(value: float | None) -> float | None:
    return float(f"{value:.4g}") if value is not None and math.isfinite(value) else None


class _Names:
    """Names in place of addresses and of the names of a test."""

    def __init__(self, run: Run) -> None:
        gateways = [urlsplit(gateway.url).port for gateway in run.gateways]
        self._names = {str(port): f"gateway-{number}" for number, port in enumerate(gateways, 1)}
        self._workers = 0

    def applied(self, series: Mapping[str, Any]) -> dict[str, Any]:
        """Return *series* with these names in its labels."""
        labels = {name: ADDRESS.sub(self._name, MODELS.get(value, value)) for name, value in series["labels"].items()}
        return {**series, "labels": labels}

    def _name(self, address: re.Match[str]) -> str:
        port = address[1]
        if port not in self._names:
            self._workers += 1
            self._names[port] = f"worker-{self._workers}"
        return self._names[port]


def main() -> int:
    recorded = asyncio.run(record())
    answers = recorded.pop("answers")
    silent = [expr for expr, series in answers.items() if not series]
    # A line for each query, so that a diff can be read.
    lines = ",\n".join(f"{json.dumps(expr)}: {json.dumps(series)}" for expr, series in answers.items())
    head = "".join(f"{json.dumps(name)}: {value},\n" for name, value in recorded.items())
    RECORDED.write_text(f'{{\n{head}"answers": {{\n{lines}\n}}\n}}\n', encoding="utf-8")
    sys.stdout.write(f"{len(answers)} queries recorded, {len(silent)} without an answer\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

from pathlib import Path

import yaml

from documentation.pictures import pod_shutdown
from documentation.pictures.pod_shutdown import PRE_STOP_S, SHUTDOWN_GRACE_S, STOP_DELAY_S

CHART = Path(__file__).parents[3] / "deploy/helm/warmgate/values.yaml"


def test_the_durations_are_the_defaults_of_the_chart() -> None:
    values = yaml.safe_load(CHART.read_text(encoding="utf-8"))
    server = values["config"]["server"]

    assert PRE_STOP_S == values["preStopSleepSeconds"]
    assert (STOP_DELAY_S, SHUTDOWN_GRACE_S) == (server["stop_delay_s"], server["shutdown_grace_s"])


def test_each_phase_begins_when_the_one_before_it_ends() -> None:
    svg = pod_shutdown.pod_shutdown()

    assert [] == [second for second in ("0 s", "5 s", "20 s", "140 s", "150 s") if f">{second}<" not in svg]

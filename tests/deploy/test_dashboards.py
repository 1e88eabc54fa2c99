"""The dashboards are as they were written, ask for what there is, and are what Grafana takes.

No Grafana can be had from Debian, PyPI or npm, so none opens them here. What stands for it: the types that Grafana
publishes, which its server and panels are built with, and a real Prometheus, in `test_observed.py`.
"""

import copy
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from deploy.grafana.written import FOLDER, files
from tests.deploy.chart import install, tiny
from tests.deploy.grafana import TYPES, Json, chosen, dashboards, expressions, faults, panels
from tests.deploy.recorded import RECORDED
from tests.deploy.tools import tool
from tests.e2e.test_metrics_table import documented

each_dashboard = pytest.mark.parametrize("name", dashboards())

SHOWN_BY_SIMULATORS = {
    *("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
    *("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", "vllm:prompt_tokens_total"),
    *("vllm:generation_tokens_total", "vllm:num_preemptions_total", "vllm:request_success_total"),
    *("vllm:time_to_first_token_seconds", "vllm:engine_sleep_state"),
    *("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:cache_hit_rate", "sglang:prompt_tokens_total"),
    *("sglang:cached_tokens_total", "sglang:generation_tokens_total", "sglang:time_to_first_token_seconds"),
}


def asked(text: str) -> set[str]:
    """Names of metrics in an expression, histograms without their endings."""
    found = set(re.findall(r"(?:\b(?:warmgate|process)_|\bDCGM_|\b(?:vllm|sglang):)\w+", text))
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in found}


def test_the_files_are_as_they_are_written() -> None:
    """Anyone who changes one by hand has to change what writes it: `python -m deploy.grafana`."""
    assert files() == {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}


def test_prometheus_understands_all_that_panels_ask(tmp_path: Path) -> None:
    rules = [{"record": f"q:{place}", "expr": expr} for place, (_, expr) in enumerate(expressions())]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    ran = subprocess.run([tool("promtool"), "check", "rules", file], capture_output=True, check=False, text=True)

    assert 0 == ran.returncode, ran.stderr
    assert f"{len(rules)} rules found" in ran.stdout
    assert len(rules) > 100


def test_panels_ask_for_metrics_that_there_are() -> None:
    reported = {family.name for text in RECORDED.values() for family in text_string_to_metric_families(text)}
    known = documented().keys() | SHOWN_BY_SIMULATORS | reported

    unknown = {(place, name) for place, expr in expressions() for name in asked(expr) - known}

    assert set() == unknown


@each_dashboard
def test_a_dashboard_names_no_source_of_data(name: str) -> None:
    """It is chosen at the top: what is called prometheus here has another id everywhere."""
    dashboard = dashboards()[name]
    source = {"type": "prometheus", "uid": "${datasource}"}
    first, *choices = dashboard["templating"]["list"]

    assert ("datasource", "prometheus") == (first["type"], first["query"])
    assert all(source == choice["datasource"] for choice in choices)
    assert all(source == panel["datasource"] for panel in panels(dashboard))
    assert all(source == target["datasource"] for panel in panels(dashboard) for target in panel["targets"])
    assert "__inputs" not in dashboard


@each_dashboard
def test_panels_have_room_names_and_words(name: str) -> None:
    """No two stand in the same place; each says in a sentence what it shows."""
    dashboard = dashboards()[name]
    taken = [
        (x, y)
        for at in (panel["gridPos"] for panel in dashboard["panels"])
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    numbers = [panel["id"] for panel in dashboard["panels"]]

    assert len(set(taken)) == len(taken)
    assert 23 == max(x for x, _ in taken)
    assert sorted(set(numbers)) == sorted(numbers)
    assert all(panel["title"] and panel["description"].endswith((".", "!")) for panel in panels(dashboard))
    assert name == dashboard["uid"].removeprefix("warmgate-")


@each_dashboard
def test_what_is_chosen_at_the_top_is_used(name: str) -> None:
    dashboard = dashboards()[name]
    choices = {choice["name"] for choice in dashboard["templating"]["list"]} - {"datasource"}
    texts = [target["expr"] for panel in panels(dashboard) for target in panel["targets"]]
    used = {name for text in texts for name in re.findall(r"\$(\w+)", text)} - {"__rate_interval", "__range"}

    assert choices == used
    assert all("$" not in chosen(text) for text in texts)


@pytest.mark.parametrize("version", TYPES)
def test_grafana_takes_them(version: str) -> None:
    assert [] == faults(dashboards(), TYPES[version])


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (lambda panel: panel["gridPos"].update(width=3), "width"),
        (lambda panel: panel["options"]["tooltip"].update(mode="many"), '"many"'),
        (lambda panel: panel["fieldConfig"]["defaults"]["custom"].update(lineWitdh=2), "lineWitdh"),
        (lambda panel: panel["fieldConfig"]["defaults"].update(unit=5), "number"),
        (lambda panel: panel.pop("type"), "no types for a panel"),
    ],
)
def test_grafanas_types_refuse_something(change: object, reported: str) -> None:
    """A field that there is not, and a value of another kind."""
    dashboard = copy.deepcopy(dashboards()["overview"])
    panel: Json = next(panel for panel in panels(dashboard) if panel["type"] == "timeseries")
    change(panel)  # type: ignore[operator]

    if "type" not in panel:
        with pytest.raises(AssertionError, match=reported):
            faults({"overview": dashboard})
    else:
        assert reported in str(faults({"overview": dashboard}))


def test_the_chart_ships_each_as_a_config_map() -> None:
    """With the label that the sidecar looks for, and its folder; only where they are wanted."""
    assert not [each for each in install(tiny()).of("ConfigMap") if "warmgate-overview.json" in each["data"]]

    maps = [
        each
        for each in install(tiny(dashboards={"enabled": True})).of("ConfigMap")
        if "warmgate.yaml" not in each["data"]
    ]

    shipped = {name: text for each in maps for name, text in each["data"].items()}
    assert shipped == {f"warmgate-{name}": text for name, text in files().items()}
    assert all("1" == each["metadata"]["labels"]["grafana_dashboard"] for each in maps)
    assert all({"grafana_folder": "Warmgate"} == each["metadata"]["annotations"] for each in maps)
    assert all(sum(map(len, each["data"].values())) < 900_000 for each in maps)  # etcd takes 1 MiB


def test_where_and_how_they_are_found_can_be_said() -> None:
    """A namespace that the sidecar looks into, another label, no folder."""
    wanted = {"enabled": True, "namespace": "monitoring", "label": "dash", "labelValue": "yes", "folder": ""}
    maps = [each for each in install(tiny(dashboards=wanted)).of("ConfigMap") if "warmgate.yaml" not in each["data"]]

    assert {("monitoring", "yes")} == {
        (each["metadata"]["namespace"], each["metadata"]["labels"]["dash"]) for each in maps
    }
    assert not any("annotations" in each["metadata"] for each in maps)

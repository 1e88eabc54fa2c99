"""Autoscalers for gateways and engines, on the metrics that the gateway really has."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.scaler import Scaler
from tests.deploy import schemas
from tests.deploy.tools import tool
from tests.e2e.test_metrics_table import documented

FOLDER = Path(__file__).parents[2] / "deploy" / "eks" / "autoscaling"
WHOM = ("gateway", "engines")


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return found


def keda_queries(whom: str) -> dict[str, str]:
    return {trigger.name: trigger.query for trigger in Scaler.of(document(f"keda-{whom}.yaml")).triggers}


def adapter_rules() -> list[dict[str, Any]]:
    rules = document("prometheus-adapter-values.yaml")["rules"]
    return [*rules["custom"], *rules["external"]]


def adapter_query(name: str, matchers: str, *, group_by: str = "") -> str:
    """The query that prometheus-adapter makes of its rule for the metric *name*."""
    (rule,) = (rule for rule in adapter_rules() if rule["name"]["as"] == name)
    series = re.match(r"\w+", rule["seriesQuery"])
    assert series is not None
    query: str = rule["metricsQuery"]
    for placeholder, value in (("Series", series[0]), ("LabelMatchers", matchers), ("GroupBy", group_by)):
        query = query.replace(f"<<.{placeholder}>>", value)
    return query


def all_queries() -> dict[str, str]:
    made = {
        rule["name"]["as"]: adapter_query(rule["name"]["as"], 'model="llama-70b"', group_by="pod")
        for rule in adapter_rules()
    }
    return made | {f"{whom} {name}": query for whom in WHOM for name, query in keda_queries(whom).items()}


@pytest.mark.parametrize("name", all_queries())
def test_queries_ask_for_metrics_that_there_are(name: str) -> None:
    asked = set(re.findall(r"warmgate_\w+", all_queries()[name]))

    assert asked
    assert set() == asked - documented().keys()


def test_prometheus_understands_all_queries(tmp_path: Path) -> None:
    rules = [{"record": f"q:{i}", "expr": query} for i, query in enumerate(all_queries().values())]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))

    ran = subprocess.run([tool("promtool"), "check", "rules", file], capture_output=True, check=False, text=True)

    assert 0 == ran.returncode, ran.stderr
    assert f"{len(rules)} rules found" in ran.stdout


@pytest.mark.parametrize("whom", WHOM)
def test_keda_takes_its_objects(whom: str) -> None:
    schemas.check_others([document(f"keda-{whom}.yaml")])


@pytest.mark.parametrize("version", schemas.VERSIONS)
@pytest.mark.parametrize("whom", WHOM)
def test_kubernetes_takes_the_autoscalers(whom: str, version: str) -> None:
    """Every field is known, and of the right kind."""
    schemas.check([document(f"hpa-{whom}.yaml")], version)


@pytest.mark.parametrize("whom", WHOM)
def test_both_ways_scale_the_same_within_the_same_bounds(whom: str) -> None:
    """Anyone who changes from one to the other changes nothing else."""
    keda, hpa = document(f"keda-{whom}.yaml")["spec"], document(f"hpa-{whom}.yaml")["spec"]

    assert keda["scaleTargetRef"] == hpa["scaleTargetRef"]
    assert (keda["minReplicaCount"], keda["maxReplicaCount"]) == (hpa["minReplicas"], hpa["maxReplicas"])
    assert keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == hpa["behavior"]


def test_engines_are_scaled_by_the_same_questions_in_both_ways() -> None:
    keda = {trigger.query: trigger.target for trigger in Scaler.of(document("keda-engines.yaml")).triggers}
    hpa = {}
    for metric in document("hpa-engines.yaml")["spec"]["metrics"]:
        asked, target = metric["external"]["metric"], metric["external"]["target"]["averageValue"]
        matchers = ",".join(f'{name}="{value}"' for name, value in asked["selector"]["matchLabels"].items())
        hpa[adapter_query(asked["name"], matchers)] = quantity(target)

    assert keda == hpa


def test_gateways_are_scaled_by_the_same_numbers_in_both_ways() -> None:
    """The sum over all pods by so much for each is the same as the average of the pods."""
    keda = {trigger["type"]: trigger["metadata"] for trigger in document("keda-gateway.yaml")["spec"]["triggers"]}
    hpa = {metric["type"]: metric for metric in document("hpa-gateway.yaml")["spec"]["metrics"]}
    by_pod = hpa["Pods"]["pods"]
    by_processor = hpa["ContainerResource"]["containerResource"]

    assert quantity(keda["prometheus"]["threshold"]) == quantity(by_pod["target"]["averageValue"])
    assert int(keda["cpu"]["value"]) == by_processor["target"]["averageUtilization"]
    assert keda["cpu"]["containerName"] == by_processor["container"]
    assert 'sum by (pod) (avg_over_time(warmgate_requests_in_flight{a="b"}[1m]))' == adapter_query(
        by_pod["metric"]["name"], 'a="b"', group_by="pod"
    )


@pytest.mark.parametrize("whom", WHOM)
def test_replicas_go_slowly_and_come_at_once(whom: str) -> None:
    """What goes takes a warm cache or open streams along."""
    behavior = document(f"hpa-{whom}.yaml")["spec"]["behavior"]

    assert behavior["scaleDown"]["stabilizationWindowSeconds"] >= 300
    assert [{"type": "Pods", "value": 1, "periodSeconds": 300}] == behavior["scaleDown"]["policies"]
    assert 0 == behavior["scaleUp"]["stabilizationWindowSeconds"]


@pytest.mark.parametrize("whom", WHOM)
def test_without_prometheus_nothing_is_scaled_down(whom: str) -> None:
    """KEDA keeps what is there, and its `fallback` knows no other type than AverageValue."""
    spec = document(f"keda-{whom}.yaml")["spec"]

    assert "currentReplicasIfHigher" == spec["fallback"]["behavior"]
    assert {"AverageValue"} == {each["metricType"] for each in spec["triggers"] if each["type"] == "prometheus"}


def quantity(text: str) -> float:
    """A number as Kubernetes writes it, with thousandths at most."""
    return float(text.removesuffix("m")) / 1000 if text.endswith("m") else float(text)

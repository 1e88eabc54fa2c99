"""The alerts fire for what they say, and not otherwise; anyone who is woken by one finds what to do."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm_python import HelmError

from tests.deploy import schemas
from tests.deploy.chart import ROOT, install, tiny
from tests.deploy.rules import ALERTS, alerts, groups, metrics_of, selected_by
from tests.deploy.tools import tool
from tests.e2e.test_metrics_table import documented

CASES = Path(__file__).parent / "alerts.test.yaml"
RUNBOOKS = ROOT / "docs" / "operate" / "runbooks.md"

each_alert = pytest.mark.parametrize("name", alerts())


def promtool(*arguments: str | Path, folder: Path) -> str:
    ran = subprocess.run([tool("promtool"), *arguments], cwd=folder, capture_output=True, check=False, text=True)
    assert 0 == ran.returncode, ran.stderr + ran.stdout
    return ran.stdout


def test_prometheus_takes_the_file_as_it_is(tmp_path: Path) -> None:
    """Expressions and templates; no alert comes twice."""
    assert f"{len(alerts())} rules found" in promtool("check", "rules", ALERTS, folder=tmp_path)
    assert len(alerts()) == sum(len(group["rules"]) for group in groups())


@pytest.mark.timeout(180)
def test_each_alert_fires_for_what_is_bad_and_for_nothing_else(tmp_path: Path) -> None:
    """`alerts.test.yaml`, by promtool's own clock."""
    bare = [
        {**group, "rules": [{key: rule[key] for key in rule if key != "annotations"} for rule in group["rules"]]}
        for group in groups()
    ]
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump({"groups": bare}))
    (tmp_path / CASES.name).write_text(CASES.read_text(encoding="utf-8"))

    assert "SUCCESS" in promtool("test", "rules", CASES.name, folder=tmp_path)


@each_alert
def test_a_case_has_it_fire_and_not_fire(name: str) -> None:
    """Once for the job `bad`, while others are seen; and earlier, or of those whose time is 0, before the fault."""
    looks = [
        look
        for case in yaml.safe_load(CASES.read_text(encoding="utf-8"))["tests"]
        for look in case["alert_rule_test"]
        if name == look["alertname"]
    ]

    assert {True, False} == {bool(look["exp_alerts"]) for look in looks}
    fired = [alert["exp_labels"] for look in looks for alert in look["exp_alerts"]]
    assert {None if name == "WarmgateAbsent" else "bad"} == {labels.get("job") for labels in fired}


def test_what_an_alert_says_is_filled_in(tmp_path: Path) -> None:
    """With its labels and its value, as anyone who is woken reads it."""
    buckets = {"10.0": "0+0x40", "20.0": "0+9x40", "+Inf": "0+9x40"}
    case = {
        "rule_files": [str(ALERTS)],
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {
                        "series": f'warmgate_time_to_first_token_seconds_bucket{{job="g",model="llama",le="{bound}"}}',
                        "values": values,
                    }
                    for bound, values in buckets.items()
                ],
                "alert_rule_test": [
                    {
                        "alertname": "WarmgateFirstTokensLate",
                        "eval_time": "40m",
                        "exp_alerts": [
                            {
                                "exp_labels": {"job": "g", "model": "llama", "severity": "warning"},
                                "exp_annotations": {
                                    "summary": "First tokens of llama come late",
                                    "description": "One stream in twenty waits 19.5s or longer for its first token.",
                                    "runbook_url": "docs/operate/runbooks.md#warmgatefirsttokenslate",
                                },
                            }
                        ],
                    }
                ],
            }
        ],
    }
    (tmp_path / "said.yaml").write_text(yaml.safe_dump(case))

    assert "SUCCESS" in promtool("test", "rules", "said.yaml", folder=tmp_path)


@each_alert
def test_an_alert_says_how_bad_it_is_and_where_to_read_on(name: str) -> None:
    """The runbook is there. Labels that it speaks of are those that its expression leaves."""
    rule = alerts()[name]
    said = rule["annotations"]
    named = set(re.findall(r"\$labels\.(\w+)", said["summary"] + said["description"]))
    headings = re.findall(r"^### (\w+)$", RUNBOOKS.read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert {"summary", "description", "runbook_url"} == set(said)
    assert 1 == headings.count(name)
    assert f"docs/operate/runbooks.md#{name.lower()}" == said["runbook_url"]
    assert all(re.search(rf"(by|on) \([^)]*\b{label}\b", rule["expr"]) for label in named)


def test_no_runbook_is_of_an_alert_that_is_gone() -> None:
    """Each heading of that kind in the runbooks has its rule."""
    headings = re.findall(r"^### (Warmgate\w+)$", RUNBOOKS.read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert set(alerts()) == set(headings)


@each_alert
def test_it_asks_for_metrics_that_there_are(name: str) -> None:
    asked = {re.sub(r"_(bucket|sum|count)$", "", metric) for metric in metrics_of(alerts()[name]["expr"])}

    assert asked
    assert set() == asked - documented().keys()


def test_selectors_are_found_in_an_expression() -> None:
    """What `test_observed.py` goes by: names, and the labels that braces name."""
    expr = 'sum by (model) (rate(warmgate_a_total{status=~"5..",kind="x"}[5m])) > 0.1 * process_open_fds'

    assert {"warmgate_a_total", "process_open_fds"} == metrics_of(expr)
    assert {("warmgate_a_total", "status"), ("warmgate_a_total", "kind")} == selected_by(expr)


def rule_of(**values: Any) -> dict[str, Any]:
    """The PrometheusRule that the chart makes."""
    return install(tiny(prometheusRule={"enabled": True, **values})).one("PrometheusRule")


def test_the_chart_ships_the_same_groups() -> None:
    """Only where they are wanted, and as the operator takes them."""
    made = rule_of()

    assert groups() == made["spec"]["groups"]
    schemas.check_others([made])
    assert [] == install(tiny()).of("PrometheusRule")


def test_labels_addresses_and_exceptions_are_put_in() -> None:
    """One's own labels go over those of the rules; a group without rules is left out."""
    fallbacks = [
        rule["alert"] for group in groups() if group["name"] == "warmgate-fallbacks" for rule in group["rules"]
    ]
    made = rule_of(
        labels={"release": "prometheus"},
        ruleLabels={"team": "platform", "severity": "page"},
        disabled=["WarmgateAbsent", *fallbacks],
        runbookBase="https://git.example.com/warmgate/",
    )
    rules = {rule["alert"]: rule for group in made["spec"]["groups"] for rule in group["rules"]}

    assert "prometheus" == made["metadata"]["labels"]["release"]
    assert set(alerts()) - {"WarmgateAbsent", *fallbacks} == set(rules)
    assert "warmgate-fallbacks" not in {group["name"] for group in made["spec"]["groups"]}
    assert all({"team": "platform", "severity": "page"} == rule["labels"] for rule in rules.values())
    assert (
        "https://git.example.com/warmgate/docs/operate/runbooks.md#warmgateworkerdown"
        == rules["WarmgateWorkerDown"]["annotations"]["runbook_url"]
    )


def test_an_exception_that_is_no_alert_is_refused() -> None:
    """A typo would leave the alert where it is."""
    with pytest.raises(HelmError, match="WarmgateWorkerDwon"):
        rule_of(disabled=["WarmgateWorkerDwon"])

"""The alerts that ship, and what their expressions ask for."""

import re
from functools import cache
from typing import Any

import yaml

from tests.deploy.chart import CHART

ALERTS = CHART / "files" / "alerts.yaml"

Rule = dict[str, Any]

_METRIC = r"\b((?:warmgate|process)_\w+)"


@cache
def groups() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return found


def alerts() -> dict[str, Rule]:
    return {rule["alert"]: rule for group in groups() for rule in group["rules"]}


def metrics_of(expr: str) -> set[str]:
    """Names of series in *expr*."""
    return set(re.findall(_METRIC, expr))


def selected_by(expr: str) -> set[tuple[str, str]]:
    """Each series with each label that its braces name."""
    return {
        (name, label)
        for name, braces in re.findall(rf"{_METRIC}\{{([^}}]*)\}}", expr)
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", braces)
    }

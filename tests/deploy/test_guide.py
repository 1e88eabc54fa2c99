"""What the pages of deploy/ say of files, settings, values and metrics is there."""

import re
from pathlib import Path

import pytest
import yaml

from gateway.settings import describe
from routing.strategies import NAMES
from tests.deploy.chart import CHART, ROOT, install, metric_families, tiny

PAGES = [ROOT / "deploy" / "README.md", ROOT / "deploy" / "examples" / "README.md"]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def in_backticks(page: Path) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")))


@each_page
def test_every_link_leads_to_a_file(page: Path) -> None:
    """Relative ones; and a heading, where one is named."""
    broken = []
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        name, _, heading = target.partition("#")
        found = page.parent / name if name else page
        if not found.exists() or (heading and heading not in _headings(found)):
            broken.append(target)

    assert [] == broken


def _headings(page: Path) -> set[str]:
    lines = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", line.lower()).replace(" ", "-") for line in lines}


def test_every_setting_and_value_that_the_guide_names_exists() -> None:
    settings = {row.path for row in describe()} | {"limits.max_concurrent_requests"}  # of a team
    roots = {name.split(".")[0].removesuffix("[]") for name in settings}
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    named = {name for name in in_backticks(PAGES[0]) if re.fullmatch(r"[a-zA-Z_]+(\[\])?(\.[a-zA-Z_\[\]]+)+", name)}

    unknown = set()
    for name in named - {"values.schema.json"}:
        path = name.removeprefix("config.")
        is_setting = any(row == path or row.startswith(f"{path}.") for row in settings)
        if path.split(".")[0].removesuffix("[]") in roots | set(values) and not is_setting and not _has(values, name):
            unknown.add(name)

    assert set() == unknown
    assert len(named) > 25


def _has(values: object, name: str) -> bool:
    for part in name.split("."):
        if not isinstance(values, dict) or part not in values:
            return False
        values = values[part]
    return True


def test_ports_that_the_installation_page_forwards_are_ports_of_the_services() -> None:
    text = (ROOT / "docs" / "start" / "kubernetes.md").read_text(encoding="utf-8")
    services = install(tiny(config={"admin": {"port": 8081}})).of("Service")
    ports = {f"{each['metadata']['name']}:{port['port']}" for each in services for port in each["spec"]["ports"]}
    forwarded = {f"{name}:{port}" for name, port in re.findall(r"port-forward svc/(\S+) \d+:(\d+)", text)}

    assert {"warmgate:80", "warmgate-pods:8081"} == forwarded
    assert forwarded <= ports


def test_every_metric_that_the_guide_names_exists() -> None:
    """An alert on one says what is wrong."""
    known = metric_families(install(tiny()).settings)
    named = {name.removesuffix("_total") for name in in_backticks(PAGES[0]) if name.startswith("warmgate_")}

    assert set() == named - known
    assert named


def test_hyperpods_strategies_are_mapped_to_ours() -> None:
    """All four that its enum has, to names that a model may have."""
    text = PAGES[0].read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(prefixaware|kvaware|session|roundrobin)` \| `(\w+)` \|", text, flags=re.MULTILINE))

    assert {"prefixaware", "kvaware", "session", "roundrobin"} == set(rows)
    assert set(rows.values()) <= set(NAMES)


def test_the_times_that_the_guide_reports_are_those_of_the_values() -> None:
    text = PAGES[0].read_text(encoding="utf-8")
    release = install(tiny())
    server = release.settings.server

    assert (5, 15, 120) == (
        release.container["lifecycle"]["preStop"]["sleep"]["seconds"],
        server.stop_delay_s,
        server.shutdown_grace_s,
    )
    assert all(
        reported in text
        for reported in (
            "(`preStopSleepSeconds`, 5 s)",
            "`server.stop_delay_s` (15 s)",
            "`server.shutdown_grace_s` (120 s)",
        )
    )
    assert "2Gi" == release.container["resources"]["limits"]["memory"]

"""Every panel and every alert that ships has an answer from a real Prometheus that scraped a real run."""

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.deploy.grafana import chosen, dashboards, expressions
from tests.deploy.observed import NAMESPACE, Run, observed
from tests.deploy.prometheus import until
from tests.deploy.rules import alerts, metrics_of, selected_by
from tests.deploy.tools import missing
from tests.storage import RedisServers, program

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Run]:
    """Two gateways, shared by the tests of this file; they only look."""
    command = program()
    if command is None:
        missing("redis-server")
    servers = RedisServers(command)
    try:
        async with observed(tmp_path_factory.mktemp("run"), servers.started(), gateways=2) as running:
            yield running
    finally:
        servers.close()


async def unanswered(run: Run, queries: dict[str, str]) -> dict[str, str]:
    async def ask() -> dict[str, str]:
        return {place: query for place, query in queries.items() if not await run.prometheus.numbers(query)}

    return await until(ask, lambda silent: not silent)


async def test_every_panel_draws_something(run: Run) -> None:
    """A number at least for each query of each panel, with all that can be chosen chosen."""
    assert {} == await unanswered(run, dict(expressions()))


async def test_every_choice_has_values(run: Run) -> None:
    """What Grafana puts into the lists at the top of each dashboard."""
    for name, dashboard in dashboards().items():
        for choice in dashboard["templating"]["list"][1:]:
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", choice["query"]["query"])
            assert found is not None
            values = await run.prometheus.values(found[2], chosen(found[1]))

            assert values, (name, choice["name"])
            if choice["name"] == "namespace":
                assert [NAMESPACE] == values


async def test_panels_of_one_model_show_that_alone(run: Run) -> None:
    """What is chosen at the top reaches the queries."""
    (expr,) = (
        target["expr"]
        for panel in dashboards()["overview"]["panels"]
        if panel["title"] == "Requests by model"
        for target in panel["targets"]
    )

    asked = await run.prometheus.ask(chosen(expr.replace("$model", "told|sglang")))

    assert {"told", "sglang"} == {labels["model"] for labels, _ in asked}


async def test_all_that_alerts_ask_for_is_there(run: Run) -> None:
    """Each series of each expression, with each label that it is chosen by: an alert on a typo would never fire."""
    series = {f"{name}: {metric}": metric for name, rule in alerts().items() for metric in metrics_of(rule["expr"])}
    labels = {
        f"{name}: {metric} by {label}": f'{metric}{{{label}!=""}}'
        for name, rule in alerts().items()
        for metric, label in selected_by(rule["expr"])
    }

    assert {} == await unanswered(run, series | labels)


async def test_prometheus_can_evaluate_all_alerts(run: Run) -> None:
    """No expression fails on real series, as one that matches many to many would; what is well does not fire."""
    rules = await run.prometheus.rules()

    assert set(alerts()) == set(rules)
    assert {} == {name: rule.get("lastError") for name, rule in rules.items() if rule["health"] != "ok"}
    assert not {"WarmgateAbsent", "WarmgateConfigRefused", "WarmgateReplicasDisagree"} & await run.prometheus.firing()


async def test_what_a_caller_was_reported_is_what_prometheus_counts(run: Run) -> None:
    """The gateway's own count of a status and Prometheus's, of a model whose requests all fail."""
    asked = await run.prometheus.ask('sum by (status) (warmgate_requests_total{model="gone"})')

    assert {"503"} == {labels["status"] for labels, _ in asked}

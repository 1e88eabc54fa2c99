"""Metrics about alerts and their delivery."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gateway.telemetry.alert_delivery.delivery import Delivery
from gateway.telemetry.alert_metrics import AlertMetrics
from gateway.tenancy.alerts.alert import Alert
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team
from tests.gateway.telemetry.alert_delivery.test_delivery import DOWN, Inbox
from tests.gateway.tenancy.alerts.stage import AlertStage, alert_stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[AlertStage]:
    async with alert_stage(tmp_path) as stage:
        yield stage


async def test_alerts_and_attempts_are_counted(stage: AlertStage) -> None:
    inbox = Inbox(answers=[None, DOWN])
    watch = stage.watch()
    delivery = Delivery(Alert, stage.alerts, [inbox], sender="x", wall_clock=stage.clock)
    stage.have(Team("blue", limits=Limits(usd_per_month=10.0)))
    await watch.look()
    await stage.use("team:blue/usd_per_month", 8.0)
    await watch.look()
    await delivery.deliver(inbox)
    registry = CollectorRegistry()
    spend = stage.spend_watch()
    spend.added = 3
    registry.register(AlertMetrics(watch, spend, delivery))
    lines = generate_latest(registry).decode().splitlines()

    assert {
        'warmgate_alerts_total{outcome="recorded"} 5.0',
        'warmgate_alerts_total{outcome="crowded"} 0.0',
        'warmgate_alert_deliveries_total{outcome="delivered",receiver="ops"} 1.0',
        'warmgate_alert_deliveries_total{outcome="failed",receiver="ops"} 1.0',
    } <= set(lines)

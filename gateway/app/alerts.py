"""Assembly of alerts about budgets and unusual spend, if there are receivers."""

import secrets
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from gateway.app.tenancy import Tenancy
from gateway.telemetry.alert_delivery.delivery import Delivery, Receiver
from gateway.telemetry.alert_delivery.email import Email, MailServer
from gateway.telemetry.alert_delivery.slack import Slack
from gateway.telemetry.alert_delivery.webhook import Webhook, payload, secret_bytes
from gateway.telemetry.alert_metrics import AlertMetrics
from gateway.tenancy.alerts.alert import Alert
from gateway.tenancy.alerts.budget_use import BudgetUses
from gateway.tenancy.alerts.budget_watch import BudgetWatch
from gateway.tenancy.alerts.spend_watch import SpendRule, SpendWatch
from gateway.tenancy.quota.plan import Calendar


@dataclass(frozen=True, slots=True)
class WebhookRules:
    """Receiver of signed alerts over HTTP."""

    name: str
    url: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SlackRules:
    """Receiver of messages at the secret address *url*."""

    name: str
    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class EmailRules:
    """Receivers of e-mails."""

    name: str
    server: MailServer
    sender: str
    recipients: Sequence[str]


@dataclass(frozen=True, slots=True)
class AlertRules:
    """Options for alerts about budgets and unusual spend."""

    thresholds: Sequence[float]
    spend: SpendRule | None
    """Definition of unusual spend, or None for no such alerts."""
    check_s: float
    webhooks: Sequence[WebhookRules]
    slack: Sequence[SlackRules]
    email: Sequence[EmailRules]


class Alerts:
    """Alerts of one gateway: what records them, and what delivers them."""

    def __init__(
        self, rules: AlertRules, tenancy: Tenancy, client: httpx.AsyncClient, *, wall_clock: Callable[[], float]
    ) -> None:
        """Create the alerts about the budgets of *tenancy*. Webhooks use *client*."""
        stores = tenancy.stores
        receivers: list[Receiver[Alert]] = [
            *(
                Webhook(
                    *(each.name, each.url, secret_bytes(each.secret)),
                    encode=payload,
                    client=client,
                    wall_clock=wall_clock,
                )
                for each in rules.webhooks
            ),
            *(Slack(each.name, each.url, client=client) for each in rules.slack),
            *(Email(each.name, each.server, sender=each.sender, recipients=each.recipients) for each in rules.email),
        ]
        uses = BudgetUses(
            *(stores.quota, stores.usage, tenancy.directory, Calendar(tenancy.zone)),
            soft_budgets=tenancy.soft_budgets,
            spent=tenancy.quota.spent_budgets,
            clock=wall_clock,
        )
        watch = BudgetWatch(
            *(stores.alerts, uses),
            receivers=[each.name for each in receivers],
            thresholds=rules.thresholds,
            check_s=rules.check_s,
            clock=wall_clock,
        )
        spend = _spend_watch(rules, tenancy, [each.name for each in receivers], wall_clock)
        delivery = Delivery(Alert, stores.alerts, receivers, sender=secrets.token_hex(16), wall_clock=wall_clock)
        self.metrics = AlertMetrics(watch, spend, delivery)
        runs = [watch.run, delivery.run] if spend is None else [watch.run, spend.run, delivery.run]
        self._runs = runs if receivers else []

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """Return the background loops, to run until canceled. Without receivers, the list is empty."""
        return [run() for run in self._runs]


def _spend_watch(
    rules: AlertRules, tenancy: Tenancy, receivers: Sequence[str], wall_clock: Callable[[], float]
) -> SpendWatch | None:
    if rules.spend is None:
        return None
    return SpendWatch(
        *(tenancy.stores.alerts, tenancy.stores.usage, Calendar(tenancy.zone), rules.spend),
        receivers=receivers,
        check_s=rules.check_s,
        clock=wall_clock,
    )

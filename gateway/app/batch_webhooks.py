"""Assembly of webhooks about batches that have ended, if there are receivers."""

import secrets
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from gateway.batch.events import BatchEvent, BatchEvents, payload
from gateway.telemetry.alert_delivery.delivery import Delivery
from gateway.telemetry.alert_delivery.webhook import Webhook, secret_bytes
from gateway.tenancy.alerts.alert_store import AlertStore


@dataclass(frozen=True, slots=True)
class BatchWebhookRules:
    """Receiver of signed events over HTTP."""

    name: str
    url: str
    secret: str = field(repr=False)
    teams: Collection[str] | None
    """Teams whose batches cause events, or None for all teams."""


class BatchWebhooks:
    """Webhooks about batches of one gateway: the events, and their delivery."""

    def __init__(
        self,
        rules: Sequence[BatchWebhookRules],
        store: AlertStore,
        client: httpx.AsyncClient,
        *,
        wall_clock: Callable[[], float],
    ) -> None:
        """Create the webhooks. *store* keeps their events, and they use *client*."""
        self.events = BatchEvents(store, {each.name: each.teams for each in rules}, wall_clock=wall_clock)
        self.delivery = Delivery(
            *(BatchEvent, store),
            [
                Webhook(
                    *(each.name, each.url, secret_bytes(each.secret)),
                    encode=payload,
                    client=client,
                    wall_clock=wall_clock,
                )
                for each in rules
            ],
            noun="batch event",
            wants=self.events.is_wanted_by,
            sender=secrets.token_hex(16),
            wall_clock=wall_clock,
        )
        self._has_receivers = bool(rules)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """Return the background loops, to run until canceled. Without receivers, the list is empty."""
        return [self.events.run(), self.delivery.run()] if self._has_receivers else []

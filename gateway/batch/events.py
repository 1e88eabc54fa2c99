"""Events for webhooks about batches that have ended, in the form of OpenAI's webhooks.

An event is stored after the batch has its last state, and the batch stays due until then, so a gateway that is killed
loses no event. The id of an event depends only on the batch and its last state, so it is stored once for all gateways.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Final, Literal

import msgspec

from gateway.batch.batch import BatchInfo, TeamBatch
from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.alerts.alert import alert_id, alert_time
from gateway.tenancy.alerts.alert_store import AlertStore

EventType = Literal["batch.completed", "batch.failed", "batch.expired", "batch.cancelled"]

KEPT_S: Final = 7 * 86_400.0
"""Seconds for which an event is not stored again. A gateway that was killed repeats its last step sooner."""
AGAIN_S: Final = 2.0
"""Seconds until receivers are added again to a store that did not answer."""

_TYPES: Final[Mapping[str, EventType]] = {
    "completed": "batch.completed",
    "failed": "batch.failed",
    "expired": "batch.expired",
    "cancelled": "batch.cancelled",
}


class BatchEvent(msgspec.Struct, frozen=True, kw_only=True):
    """End of one batch."""

    id: str
    """Id of the event. An event that is sent twice has the same id."""
    type: EventType
    created_at: int
    """Time at which the batch ended, in seconds since 1970."""
    team: str
    batch: str
    """Id of the batch."""

    @property
    def time(self) -> str:
        """Time at which the batch ended, in the form ``2026-11-21T08:00:00Z``."""
        return alert_time(self.created_at)


class NewBatchEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Event to add to the store."""

    event: BatchEvent
    until: float
    """Time until which the store knows the event, in seconds since 1970."""

    @property
    def body(self) -> bytes:
        """JSON of the event."""
        return msgspec.json.encode(self.event)

    @property
    def team(self) -> str:
        return self.event.team

    @property
    def period(self) -> str:
        """Id of the batch, so that the mark of the event expires with no other."""
        return self.event.batch

    @property
    def mark(self) -> str:
        return self.event.id

    @property
    def is_by_caller(self) -> bool:
        """Return false, because the number of batches of a team is limited, and each has one event."""
        return False


def event_of(batch: TeamBatch) -> BatchEvent:
    """Return the event of a batch that has ended."""
    status = batch.info.status
    return BatchEvent(
        id=f"evt_{alert_id('batch', batch.id, status)}",
        type=_TYPES[status],
        created_at=_ended_at(batch.info),
        team=batch.team,
        batch=batch.id,
    )


def _ended_at(info: BatchInfo) -> int:
    times = (info.completed_at, info.failed_at, info.expired_at, info.cancelled_at)
    return max(each for each in times if each is not None)


def payload(event: BatchEvent) -> bytes:
    """Return the body of the webhook for *event*, as OpenAI's clients parse it."""
    return msgspec.json.encode(
        {
            "id": event.id,
            "object": "event",
            "type": event.type,
            "created_at": event.created_at,
            "data": {"id": event.batch},
        }
    )


class BatchEvents:
    """Events in *store* for *receivers*, which want those of the named teams, or of all teams with None."""

    def __init__(
        self, store: AlertStore, receivers: Mapping[str, Collection[str] | None], *, wall_clock: Callable[[], float]
    ) -> None:
        """Create the events. *wall_clock* returns seconds since 1970."""
        self._store = store
        self._receivers = receivers
        self._wall_clock = wall_clock
        self._is_begun = False

    async def run(self) -> None:
        """Add the receivers to the store. They get the events that are stored later."""
        while not self._is_begun:
            with suppress(StoreUnavailable):
                await self._begin()
                break
            await asyncio.sleep(AGAIN_S)

    def are_wanted(self, team: str) -> bool:
        """Return whether a receiver wants the events of *team*."""
        return any(teams is None or team in teams for teams in self._receivers.values())

    def is_wanted_by(self, receiver: str, event: BatchEvent) -> bool:
        """Return whether *receiver* wants *event*."""
        teams = self._receivers[receiver]
        return teams is None or event.team in teams

    async def add(self, batch: TeamBatch) -> None:
        """Store the event of a batch that has ended, unless it was stored before.

        Raises:
            StoreUnavailable: if the store does not answer.
        """
        await self._begin()
        await self._store.add(NewBatchEvent(event=event_of(batch), until=self._wall_clock() + KEPT_S))

    async def _begin(self) -> None:
        if not self._is_begun:
            await self._store.begin(list(self._receivers))
            self._is_begun = True

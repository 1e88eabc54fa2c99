"""Delivery of stored alerts and other messages to receivers, in the background.

1. One gateway delivers at a time: the one that holds the lease in the store.
2. A receiver gets its alerts in the order in which they were stored, each at least once. The next alert is sent after
   the receiver accepted the one before.
3. A receiver that does not answer delays no other receiver and no request. Its alerts wait in the store.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from gateway.protocol.errors import DECODE_ERRORS, StoreUnavailable
from gateway.tenancy.alerts.alert_store import AlertStore, StoredAlert

POLL_S: Final = 2.0
"""Seconds between two looks for new alerts."""
LEASE_S: Final = 15.0
"""Seconds after which another gateway delivers, if this one does not renew its claim. They exceed `TIMEOUT_S`."""
TIMEOUT_S: Final = 10.0
"""Maximum seconds for a receiver to accept an alert."""
BATCH: Final = 16
"""Number of alerts to read from the store at once."""
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 300.0
"""Maximum seconds between two attempts. The pause doubles after each failure."""
GIVE_UP_S: Final = 3 * 86_400.0
"""Age in seconds above which an alert that a receiver does not accept is dropped."""
MAX_REFUSALS: Final = 10
"""Number of attempts after which an alert is dropped that the receiver refuses, so that later alerts can follow."""

_log = logging.getLogger(__name__)

Outcome = Literal["delivered", "failed", "dropped"]


class Failure(NamedTuple):
    """Failed attempt to send an alert."""

    reason: str
    """Reason without secrets, such as ``HTTP 500``."""
    is_refusal: bool = False
    """Whether the receiver refused this alert and would refuse it again."""
    pause_s: float = 0.0
    """Seconds that the receiver wants to wait."""


class Message(Protocol):
    """Alert or other message."""

    @property
    def id(self) -> str: ...

    @property
    def time(self) -> str:
        """Time at which the message was recorded, in the form ``2026-11-21T08:00:00Z``."""
        ...


Sent = TypeVar("Sent", bound=Message)
Sent_contra = TypeVar("Sent_contra", bound=Message, contravariant=True)


class Receiver(Protocol[Sent_contra]):
    """Receiver of alerts or of other messages."""

    @property
    def name(self) -> str:
        """Name in logs, metrics and the store."""
        ...

    async def send(self, message: Sent_contra, /) -> Failure | None:
        """Send *message* once. Return None if the receiver has accepted it. Takes at most about `TIMEOUT_S`."""
        ...


def _always(_receiver: str, _message: Message) -> bool:
    return True


class Delivery(Generic[Sent]):
    """Delivery of the messages in *store* to *receivers*. `counts` has the attempts by receiver and outcome."""

    def __init__(
        self,
        kind: type[Sent],
        store: AlertStore,
        receivers: Sequence[Receiver[Sent]],
        *,
        noun: str = "alert",
        wants: Callable[[str, Sent], bool] = _always,
        sender: str,
        wall_clock: Callable[[], float],
        poll_s: float = POLL_S,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        """Create the delivery of messages of the type *kind*, which logs call *noun*.

        *wants* returns whether the receiver with a name gets a message. *sender* is a unique id of the gateway.
        *wall_clock* returns seconds since 1970.
        """
        self._kind = kind
        self._noun = noun
        self._wants = wants
        self._store = store
        self._receivers = receivers
        self._sender = sender
        self._wall_clock = wall_clock
        self._poll_s = poll_s
        self._first_pause_s = first_pause_s
        self.counts: Counter[tuple[str, Outcome]] = Counter()
        for each in receivers:
            self.counts[each.name, "delivered"] = 0

    async def run(self) -> None:
        """Deliver messages until canceled."""
        async with asyncio.TaskGroup() as tasks:
            for receiver in self._receivers:
                tasks.create_task(self._deliver_always(receiver))

    async def _deliver_always(self, receiver: Receiver[Sent]) -> None:
        failures = 0
        while True:
            failure = await self.deliver(receiver, failures)
            failures = 0 if failure is None else failures + 1
            pause_s = self._poll_s
            if failure is not None:
                doubled_s = self._first_pause_s * 2.0 ** min(failures - 1, 16)
                pause_s = min(max(doubled_s, failure.pause_s), LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s)

    async def deliver(self, receiver: Receiver[Sent], failures: int = 0) -> Failure | None:
        """Send the waiting messages to *receiver*, if this gateway delivers them. Return the failure that ended this,
        if any. *failures* is the number of failed attempts with the first of the messages.
        """
        try:
            while await self._store.claim(self._sender, LEASE_S):
                alerts, removed = await self._store.waiting(receiver.name, BATCH)
                if not alerts:
                    return None
                for stored in alerts:
                    failure = await self._deliver_one(receiver, stored, failures)
                    if failure is not None:
                        return failure
                    failures = 0
                    self._note_removed(receiver, removed)
                    removed = 0
                    if not await self._store.claim(self._sender, LEASE_S):
                        return None
        except StoreUnavailable:
            return None
        return None

    async def _deliver_one(self, receiver: Receiver[Sent], stored: StoredAlert, failures: int) -> Failure | None:
        """Send one message, and record in the store that it needs no further attempt."""
        try:
            message = msgspec.json.decode(stored.body, type=self._kind)
        except DECODE_ERRORS:  # of a later version
            await self._store.delivered(receiver.name, stored.number)
            self.counts[receiver.name, "dropped"] += 1
            return None
        if not self._wants(receiver.name, message):
            await self._store.delivered(receiver.name, stored.number)
            return None
        failure = await receiver.send(message)
        if failure is not None and not self._is_hopeless(message, failure, failures + 1):
            self.counts[receiver.name, "failed"] += 1
            if not failures:
                _log.warning("%ss cannot be delivered to %s: %s", self._noun, receiver.name, failure.reason)
            return failure
        await self._store.delivered(receiver.name, stored.number)
        if failure is not None:
            self.counts[receiver.name, "dropped"] += 1
            text = "%s %s was not delivered to %s: %s"
            _log.error(text, self._noun, message.id, receiver.name, failure.reason)
        else:
            self.counts[receiver.name, "delivered"] += 1
            if failures:
                _log.warning("%ss can be delivered to %s again", self._noun, receiver.name)
        return None

    def _is_hopeless(self, message: Sent, failure: Failure, attempts: int) -> bool:
        age_s = self._wall_clock() - datetime.fromisoformat(message.time).timestamp()
        return age_s > GIVE_UP_S or (failure.is_refusal and attempts >= MAX_REFUSALS)

    def _note_removed(self, receiver: Receiver[Sent], removed: int) -> None:
        if removed:
            self.counts[receiver.name, "dropped"] += removed
            _log.error("%d %ss were removed before %s accepted them", removed, self._noun, receiver.name)

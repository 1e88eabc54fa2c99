"""Other gateway replicas and their reservations on workers. The reservations are added to the fleets of this gateway.

1. A replica is known from its first message on. If it is silent for too long, it counts as dead, and its reservations
   are released.
2. Log entries are numbered. If entries are missing, or the replica is new, a snapshot is requested. The snapshot
   replaces all reservations up to its number. Entries that arrive earlier are applied as well.
3. Models and workers that this gateway does not know are ignored, because another replica may have newer settings.
"""

from collections.abc import Callable, Iterable

from cache_index import Prefix, WorkerId
from gateway.workers.replicas.wire import (
    Beat,
    Began,
    Booked,
    BookingSnapshot,
    Entry,
    EntryBatch,
    Farewell,
    Message,
    Released,
    SnapshotRequest,
)
from routing.booking import Booking
from routing.fleet import Fleet

DEAD_AFTER_S = 3.0
ASK_EVERY_S = 1.0
"""Seconds between two requests for the same snapshot."""
MAX_PEERS = 256
"""Maximum number of known gateway replicas. Messages of further ones are ignored. Real deployments have far fewer."""


class _Peer:
    def __init__(self, now: float) -> None:
        self.heard_at = now
        self.asked_at = float("-inf")
        self.last: int | None = None
        """Number of the replica's entry that was applied last, or None if no entry is known."""
        self.is_complete = False
        """Whether all entries up to the number `last` are known."""
        self.bookings: dict[int, tuple[str, Fleet, Booking]] = {}


class Peers:
    """Live gateway replicas. *fleet_of* returns the fleet of a model, or None if the model is not served. Times are
    monotonic seconds.
    """

    def __init__(self, fleet_of: Callable[[str], Fleet | None], *, dead_after_s: float = DEAD_AFTER_S) -> None:
        self._fleet_of = fleet_of
        self._dead_after_s = dead_after_s
        self._peers: dict[bytes, _Peer] = {}
        self.gaps = 0
        """Number of detected gaps in the log entries of other replicas."""

    def __len__(self) -> int:
        """Return the number of live gateway replicas other than this gateway."""
        return len(self._peers)

    @property
    def booked(self) -> int:
        """Number of open reservations of all other gateway replicas."""
        return sum(len(peer.bookings) for peer in self._peers.values())

    def hear(self, sender: bytes, message: Message, now: float) -> set[str]:
        """Apply a message from the replica *sender*. Return the models whose load has changed. O(entries)."""
        peer = self._peers.get(sender)
        if isinstance(message, Farewell):
            return set() if peer is None else self._bury(sender)
        if peer is None:
            if len(self._peers) >= MAX_PEERS:
                return set()
            peer = self._peers[sender] = _Peer(now)
        peer.heard_at = now
        match message:
            case EntryBatch():
                return self._take(peer, message, now)
            case BookingSnapshot():
                return self._settle(peer, message, now)
            case Beat(last):
                if peer.last is None or last > peer.last:
                    self._miss(peer, last)
            case SnapshotRequest():
                pass  # the channel has answered it
        return set()

    def to_ask(self, now: float) -> list[SnapshotRequest]:
        """Return the snapshot requests that are due. Each replica gets at most one request per `ASK_EVERY_S`."""
        asks = []
        for sender, peer in self._peers.items():
            if not peer.is_complete and now - peer.asked_at >= ASK_EVERY_S:
                peer.asked_at = now
                asks.append(SnapshotRequest(sender))
        return asks

    def expire(self, now: float) -> set[str]:
        """Drop dead gateway replicas. Return the models on whose workers they had reservations."""
        dead = [sender for sender, peer in self._peers.items() if now - peer.heard_at > self._dead_after_s]
        return {model for sender in dead for model in self._bury(sender, now)}

    def clear(self, now: float) -> set[str]:
        """Drop all gateway replicas as if they were dead, because the channel was lost. Return the affected models."""
        return {model for sender in list(self._peers) for model in self._bury(sender, now)}

    # ---- one peer

    def _take(self, peer: _Peer, batch: EntryBatch, now: float) -> set[str]:
        known = -1 if peer.last is None else peer.last
        if peer.last is None and batch.first == 1:
            peer.is_complete = True  # it has done nothing before
        elif peer.last is None or batch.first > known + 1:
            self._miss(peer, known)
        news = batch.entries[max(0, known + 1 - batch.first) :]
        peer.last = max(known, batch.last)
        return {model for entry in news for model in self._apply(peer, entry, now)}

    def _settle(self, peer: _Peer, snapshot: BookingSnapshot, now: float) -> set[str]:
        """Replace the reservations of *peer* with those in *snapshot*, unless newer entries are known."""
        if peer.last is not None and peer.last > snapshot.last:
            return set()  # it was overtaken, and is asked for again if it is needed
        peer.last, peer.is_complete = snapshot.last, True
        still = {booked.number for booked in snapshot.bookings}
        touched = set()
        for number in [number for number in peer.bookings if number not in still]:
            touched |= self._end(peer, Released(number, keep=True), now)
        for booked in snapshot.bookings:
            if booked.number not in peer.bookings:
                touched |= self._book(peer, booked, now)
            if booked.has_begun:
                touched |= self._begin(peer, booked.number, now)
        return touched

    def _miss(self, peer: _Peer, last: int) -> None:
        """Record that log entries up to the number *last* were missed."""
        if peer.is_complete:
            self.gaps += 1
        peer.is_complete = False
        if peer.last is not None:
            peer.last = max(peer.last, last)

    def _bury(self, sender: bytes, now: float | None = None) -> set[str]:
        peer = self._peers.pop(sender)
        at = peer.heard_at if now is None else now
        touched = set()
        for number, (_, _, booking) in list(peer.bookings.items()):
            # Its connections are closed: an engine ends what it had not begun to answer.
            touched |= self._end(peer, Released(number, keep=booking.first_byte_at is not None), at)
        return touched

    # ---- one booking

    def _apply(self, peer: _Peer, entry: Entry, now: float) -> Iterable[str]:
        match entry:
            case Booked():
                return self._book(peer, entry, now)
            case Began(number):
                return self._begin(peer, number, now)
            case Released():
                return self._end(peer, entry, now)

    def _book(self, peer: _Peer, booked: Booked, now: float) -> set[str]:
        fleet = self._fleet_of(booked.model)
        if fleet is None or booked.number in peer.bookings:
            return set()
        booking = fleet.bookings.book_elsewhere(
            WorkerId(booked.worker),
            Prefix(booked.hashes),
            tuple([Prefix(hashes, block_tokens) for block_tokens, hashes in booked.exact]),
            uncached_tokens=booked.uncached_tokens,
            output_tokens=booked.output_tokens,
            streams=booked.streams,
            now=now,
        )
        if booking is None:
            return set()
        peer.bookings[booked.number] = booked.model, fleet, booking
        return {booked.model}

    def _begin(self, peer: _Peer, number: int, now: float) -> set[str]:
        found = peer.bookings.get(number)
        if found is None:
            return set()
        model, fleet, booking = found
        fleet.bookings.first_byte_elsewhere(booking, now)
        return {model}

    def _end(self, peer: _Peer, ended: Released, now: float) -> set[str]:
        found = peer.bookings.pop(ended.number, None)
        if found is None:
            return set()
        model, fleet, booking = found
        fleet.bookings.release_elsewhere(booking, keep=ended.keep, completion_tokens=ended.completion_tokens, now=now)
        return {model}

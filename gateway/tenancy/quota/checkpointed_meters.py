"""Quotas of a single gateway, decided in memory. If a request needs a new checkpoint, the caller must wait for it."""

from collections.abc import Callable, Sequence

from gateway.tenancy.ledger.entry import Draft
from gateway.tenancy.quota.checkpoint_writer import CheckpointWriter
from gateway.tenancy.quota.limit import Charge, Granted, PlanLimit, Refused
from gateway.tenancy.quota.meter import Meter
from gateway.tenancy.quota.meters import Meters, PlanHold, PlanMeters


class CheckpointedMeters:
    """Counters for quotas in memory. A `CheckpointWriter` writes their changes to the file."""

    def __init__(self, meters: Meters, writer: CheckpointWriter, *, clock: Callable[[], float], lease_s: float) -> None:
        """Create the counters. *clock* returns the time in seconds since 1970."""
        self._meters = meters
        self._writer = writer
        self._clock = clock
        self._lease_s = lease_s

    def now(self) -> float:
        """Return the current time of the quota clock, in seconds since 1970."""
        return self._clock()

    def reserve_plan(self, hold: PlanHold, now: float) -> Granted | None:
        """Reserve all units of *hold* at *now*, a recent time of the quota clock. If nothing was reserved and `reserve`
        must decide, return None.
        """
        hold.until = now + self._lease_s
        plan_meters, meters = hold.meters, self._meters
        if plan_meters is None or not meters.reserve_plan(hold, now):
            return None
        if meters.alerted:
            self._writer.note_alerted()
            if any(each.meter.value > each.meter.checkpoint for each in plan_meters.each):
                meters.cancel_plan(hold)
                return None  # the request has to wait for a checkpoint
        self._writer.note_changed(plan_meters.budgets)
        return plan_meters.granted

    def settle_plan(
        self, hold: PlanHold, entry: Draft, *, one: float, prompt: float, completion: float, both: float, usd: float
    ) -> None:
        """Replace the reserved units with the given units, and record *entry*. A second call has no effect."""
        meters = self._meters
        if meters.settle_plan(hold, one=one, prompt=prompt, completion=completion, both=both, usd=usd):
            if meters.alerted:
                self._writer.note_alerted()
            plan_meters = hold.meters
            if plan_meters is not None:
                self._writer.note_changed(plan_meters.budgets)
            self._writer.add(entry)

    def plan_meters(self, reservation: str, limits: Sequence[PlanLimit]) -> PlanMeters | None:
        """Return the meters of *limits* after *reservation* was granted, for use with `reserve_plan`, or None if the
        reservation has ended.
        """
        held = self._meters.held(reservation)
        return None if held is None else PlanMeters(limits, held.meters)

    def reserve_at_once(
        self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft
    ) -> Granted | Refused | None:
        """Decide in the same way as `QuotaStore.reserve`, but without waiting. If a checkpoint is needed first, reserve
        nothing and return None.
        """
        decision, needed = self.reserve(team, reservation, charges, lost)
        if needed:
            self._meters.cancel(reservation)
            return None
        return decision

    def reserve(
        self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft
    ) -> tuple[Granted | Refused, list[tuple[Meter, float]]]:
        """Decide on a reservation. Also return the meters that need a new checkpoint before the grant, with the value
        that each checkpoint must cover.
        """
        now = self._clock()
        decision = self._meters.reserve(team, reservation, charges, now, until=now + self._lease_s, lost=lost)
        held = self._meters.held(reservation)
        if held is not None:
            self._writer.note_changed(held.meters)
        if not self._meters.alerted:
            return decision, []
        self._writer.note_alerted()
        if held is None:
            return decision, []
        return decision, [(meter, meter.value) for meter in held.meters if meter.value > meter.checkpoint]

    def cancel(self, reservation: str) -> None:
        self._meters.cancel(reservation)

    def settle(self, reservation: str, charges: Sequence[Charge], entry: Draft) -> None:
        """Replace the reserved units with *charges*, and record *entry* in the ledger. A second call has no effect."""
        held = self._meters.settle(reservation, charges)
        if held is None:
            return
        self._writer.note_changed(held.meters)
        if self._meters.alerted:
            self._writer.note_alerted()
        self._writer.add(entry)

    def spent(self, team: str, charges: Sequence[Charge]) -> list[float]:
        return self._meters.spent(team, charges, self._clock())

    def refund(self, team: str, charges: Sequence[Charge]) -> None:
        self._writer.note_refunded(self._meters.refund(team, charges, self._clock()))

    def sweep(self) -> None:
        """Settle reservations whose lease has ended, and drop the meters of unused limits."""
        now = self._clock()
        for held in self._meters.expire(now):
            self._add_lost(held.lost)
        for hold in self._meters.expire_plans(now):
            self._add_lost(hold)
        self._meters.forget(now)
        self._writer.remove_ended()

    def _add_lost(self, lost: Draft | None) -> None:
        """Record the entry of *lost*. It is made here, because it reads data that only this thread may read."""
        entry = None if lost is None else lost()
        if entry is not None:
            self._writer.add(entry)

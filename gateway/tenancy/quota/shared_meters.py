"""Meters of all limits whose states several processes of one gateway share in a table.

Each process has its own objects, such as `Meter`. Before a decision, the table is locked and the states of the meters
are read. After the decision, they are written and the table is unlocked. Processes therefore decide one after the
other, as one process does, and no limit is exceeded. A decision takes a few microseconds longer than without a table.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from gateway.tenancy.ledger.entry import Draft
from gateway.tenancy.quota.limit import Charge, Granted, Limit, Refused
from gateway.tenancy.quota.meter import Meter
from gateway.tenancy.quota.meter_table import MeterTable
from gateway.tenancy.quota.meters import MAX_LIMITS, ChargeHold, Meters, MeterState, PlanHold


class SharedMeters(Meters):
    """Meters of one process, with their states in *table*. Reservations belong to the process that made them.

    It is also the link to the `OtherProcesses` with the same table. A method that would count a limit for the first
    time raises `StoreUnavailable` if the table is full.
    """

    def __init__(self, table: MeterTable, *, alert: float, max_limits: int = MAX_LIMITS) -> None:
        super().__init__(alert=alert, max_limits=max_limits)
        self._table = table

    def reserve(
        self,
        team: str,
        reservation: str,
        charges: Sequence[Charge],
        now: float,
        *,
        until: float = math.inf,
        lost: Draft | None = None,
    ) -> Granted | Refused:
        table = self._table
        table.lock()
        try:
            self._load(team, charges)
            decision = super().reserve(team, reservation, charges, now, until=until, lost=lost)
            held = self._held.get(reservation) if isinstance(decision, Granted) else None
            if held is not None:
                self._store(held.meters, 1.0)
        finally:
            table.unlock()
        return decision

    def reserve_plan(self, hold: PlanHold, now: float) -> bool:
        meters, table = hold.meters, self._table
        if meters is None:
            return False
        table.lock()
        try:
            for each in meters.each:
                if each.meter.is_gone:
                    return False
                table.load(each.meter)
            if not super().reserve_plan(hold, now):
                return False
            for each in meters.each:
                self._store_one(each.meter, 1.0)
        finally:
            table.unlock()
        return True

    def settle(self, reservation: str, charges: Sequence[Charge]) -> ChargeHold | None:
        held, table = self._held.get(reservation), self._table
        if held is None:
            return None
        table.lock()
        try:
            for meter in held.meters:
                table.load(meter)
            super().settle(reservation, charges)
            self._store(held.meters, -1.0)
        finally:
            table.unlock()
        return held

    def settle_plan(
        self, hold: PlanHold, *, one: float, prompt: float, completion: float, both: float, usd: float
    ) -> bool:
        meters, table = hold.meters, self._table
        if meters is None or not hold.is_held:
            return False
        table.lock()
        try:
            for each in meters.each:
                table.load(each.meter)
            super().settle_plan(hold, one=one, prompt=prompt, completion=completion, both=both, usd=usd)
            for each in meters.each:
                self._store_one(each.meter, -1.0)
        finally:
            table.unlock()
        return True

    def spent(self, team: str, charges: Sequence[Charge], now: float) -> list[float]:
        self._table.lock()
        try:
            self._load(team, charges)
            return super().spent(team, charges, now)
        finally:
            self._table.unlock()

    def refund(self, team: str, charges: Sequence[Charge], now: float) -> list[Meter]:
        self._table.lock()
        try:
            self._load(team, charges)
            meters = super().refund(team, charges, now)
            self._store(meters, 0.0)
        finally:
            self._table.unlock()
        return meters

    def states(self, now: float) -> Iterator[MeterState]:
        """Return the states of the meters that this process has used, as all processes have counted them."""
        self.refresh([meter for meters in self._teams.values() for meter in meters.values()])
        return super().states(now)

    def restore(self, states: Iterable[MeterState]) -> None:
        """Fill the table with *states*, unless another process has done so."""
        table = self._table
        table.sit_down()
        if table.is_restored:
            return
        table.lock()
        try:
            for state in states:
                meter = self._placed(state)
                meter.value = meter.checkpoint = meter.alert = state.value
                table.store(meter)
                table.store_marks(meter)
            table.note_restored()
        finally:
            table.unlock()

    @property
    def have_ended(self) -> bool:
        return self._table.is_alone

    def refresh(self, meters: Sequence[Meter]) -> None:
        self._table.lock()
        try:
            for meter in meters:
                self._table.load(meter)
        finally:
            self._table.unlock()

    def publish_checkpoints(self, meters: Sequence[Meter]) -> None:
        self._table.lock()
        try:
            for meter in meters:
                self._table.store_marks(meter)
        finally:
            self._table.unlock()

    def begin_writing(self) -> bool:
        return self._table.try_writing()

    def end_writing(self) -> None:
        self._table.end_writing()

    def exact(self, written: Sequence[MeterState]) -> list[MeterState]:
        self._table.lock()
        try:
            meters = [self._placed(state) for state in written if state.limit not in self._teams.get(state.team, {})]
        finally:
            self._table.unlock()
        return [
            MeterState(each.team, each.limit.id, each.value, each.period, each.value if each.is_rate else each.ends)
            for each in meters
        ]

    def free_unused(self, now: float) -> bool:
        return self._table.free_unused(now)

    def leave(self) -> None:
        self._table.stand_up()

    def _new(self, team: str, charge: Charge, now: float) -> Meter:
        meter = super()._new(team, charge, now)
        self._table.place(meter)
        return meter

    def _drop_new(self, meters: dict[str, Meter], new: Sequence[str]) -> None:
        created = [meters[each] for each in new]
        super()._drop_new(meters, new)
        for meter in created:
            if meter.is_gone:
                self._table.release(meter)

    def _placed(self, state: MeterState) -> Meter:
        """Return a meter for the limit of *state*, with what the table contains. The amount of the limit is unknown."""
        meter = Meter(state.team, Limit(state.limit, "period" if state.period else "rate", 1.0), self._alert)
        meter.period, meter.ends = state.period, state.ends
        self._table.place(meter)
        return meter

    def _load(self, team: str, charges: Sequence[Charge]) -> None:
        meters = self._teams.get(team)
        if meters is None:
            return
        for charge in charges:
            meter = meters.get(charge.limit.id)
            if meter is not None:
                self._table.load(meter)

    def _store(self, meters: Sequence[Meter], requests: float) -> None:
        for meter in meters:
            self._store_one(meter, requests)

    def _store_one(self, meter: Meter, requests: float) -> None:
        if meter.value > meter.alert:
            # The writer of this process does the same a moment later. No other process has to write the checkpoint too.
            meter.alert = meter.checkpoint
            self._table.store_marks(meter)
        self._table.store(meter, requests)

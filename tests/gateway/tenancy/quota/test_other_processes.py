"""A gateway with one process has no other processes."""

from gateway.tenancy.quota.meter import Meter
from gateway.tenancy.quota.meters import MeterState
from gateway.tenancy.quota.other_processes import NoOtherProcesses, OtherProcesses
from tests.gateway.tenancy.quota.examples import BUDGET, NOW, TOKENS


def test_a_sole_process_may_always_write_and_is_always_the_last() -> None:
    others: OtherProcesses = NoOtherProcesses()
    assert others.begin_writing()
    assert others.begin_writing()
    others.end_writing()
    others.leave()

    assert others.have_ended
    assert not others.free_unused(NOW)
    assert [] == others.exact([MeterState("blue", BUDGET.id, 0.5, "2026-11-18", NOW)])


def test_a_sole_process_keeps_its_meters_as_they_are() -> None:
    others, meter = NoOtherProcesses(), Meter("blue", TOKENS, 1.0)
    meter.value = 5.0
    others.refresh([meter])
    others.publish_checkpoints([meter])

    assert (5.0, 1.0) == (meter.value, meter.alert)

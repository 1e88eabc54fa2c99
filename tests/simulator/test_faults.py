import math

import pytest

from simulator.faults import NO_FAULT, Fault, Faults


def test_a_well_worker_has_no_fault() -> None:
    """Nothing is taken from a worker no one broke."""
    faults = Faults()

    assert NO_FAULT == faults.take()
    assert "none" == faults.whole_worker


def test_a_count_is_used_up() -> None:
    """Two requests meet the fault, the third does not."""
    faults = Faults()
    faults.set(Fault("status", status=503, count=2))

    assert [503, 503] == [faults.take().status for _ in range(2)]
    assert NO_FAULT == faults.take()
    assert NO_FAULT == faults.in_force


def test_without_a_count_a_fault_stays() -> None:
    """Until it is replaced."""
    faults = Faults()
    faults.set(Fault("status"))

    assert {"status"} == {faults.take().mode for _ in range(5)}
    faults.set(NO_FAULT)
    assert "none" == faults.take().mode


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault("refuse"), "refuse"),
        (Fault("hang"), "hang"),
        (Fault("refuse", count=1), "none"),
        (Fault("status"), "none"),
    ],
)
def test_what_takes_the_whole_worker(fault: Fault, expected: str) -> None:
    """Refusing and hanging without a count, and nothing else."""
    faults = Faults()
    faults.set(fault)

    assert expected == faults.whole_worker


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault("abort_mid_stream"), 5),
        (Fault("silent"), 1),
        (Fault("error_event"), 0),
        (Fault("silent", after_tokens=0), 0),
        (Fault("error_event", after_tokens=3), 3),
    ],
)
def test_when_a_fault_strikes(fault: Fault, expected: int) -> None:
    """After as many tokens as it says, else as its mode has it."""
    assert expected == fault.strikes_after


def test_a_dead_engine_has_no_count() -> None:
    """It is dead for everyone."""
    faults = Faults()
    with pytest.raises(ValueError, match="engine_dead affects the whole worker and accepts no count"):
        faults.set(Fault("engine_dead", count=1))
    faults.set(Fault("engine_dead"))

    assert faults.is_engine_dead
    assert "none" == faults.whole_worker


def test_slow_has_a_factor_and_no_count() -> None:
    """The pace is the worker's."""
    faults = Faults()
    with pytest.raises(ValueError, match="slow affects the whole worker and accepts no count"):
        faults.set(Fault("slow", count=1))
    faults.set(Fault("slow", factor=3))

    assert 3 == faults.slow_factor


def test_a_stuck_engine_has_no_pace_and_no_count() -> None:
    """It is stuck for everyone."""
    faults = Faults()
    with pytest.raises(ValueError, match="stuck affects the whole worker and accepts no count"):
        faults.set(Fault("stuck", count=1))
    faults.set(Fault("stuck"))

    assert math.inf == faults.slow_factor


def test_a_fault_is_ended_by_its_name() -> None:
    faults = Faults()
    faults.set(Fault("freeze"))
    faults.end("freeze")
    assert NO_FAULT == faults.in_force

    faults.set(Fault("slow"))
    faults.end("freeze")
    assert "slow" == faults.in_force.mode

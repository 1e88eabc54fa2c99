import pytest

from benchmarks.picker.contract import Fault, Kind, Outcome, cause_of

KILLED = Fault("worker killed", 10.0, "1")
PICKER_KILLED = Fault("picker killed", 20.0, "0")
DRAINED = Fault("Envoy drained", 30.0, "0")
FAULTS = [KILLED, PICKER_KILLED, DRAINED]


@pytest.mark.parametrize(
    ("began", "ended", "cause"),
    [
        (9.0, 10.5, "worker killed"),
        (12.5, 12.6, "worker killed"),
        (8.0, 9.9, None),
        (13.5, 13.6, None),
        (24.0, 24.1, "picker killed"),
        (25.5, 25.6, None),
        (9.0, 21.0, "picker killed"),
        (29.0, 31.0, None),
    ],
)
def test_a_failure_is_explained_by_a_fault_that_it_overlaps(began: float, ended: float, cause: Kind | None) -> None:
    """Health checks notice a fault after some seconds. The latest fault counts, and drains explain nothing."""
    assert cause == cause_of(Outcome(began, ended, "status 503"), FAULTS)


def test_a_wrong_answer_has_no_explanation() -> None:
    assert None is cause_of(Outcome(9.0, 11.0, "wrong text"), FAULTS)

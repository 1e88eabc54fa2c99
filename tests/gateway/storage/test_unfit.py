"""Faults of stores that answer."""

from gateway.storage.unfit import lost, replaced


def test_callers_are_told_to_come_back_and_operators_what_to_do() -> None:
    for fault, state in ((lost(), "lost"), (replaced(), "replaced")):
        assert (503, "store_unavailable", state) == (fault.status, fault.code, fault.state)
        assert (b"retry-after", b"5") in fault.response_headers
        assert "backup" in fault.message

"""Errors of stores that answer."""

from gateway.storage.unfit import lost, replaced


def test_the_error_asks_callers_to_retry_and_operators_to_act() -> None:
    for fault, state in ((lost(), "lost"), (replaced(), "replaced")):
        assert (503, "store_unavailable", state) == (fault.status, fault.code, fault.state)
        assert (b"retry-after", b"5") in fault.response_headers
        assert "backup" in fault.message

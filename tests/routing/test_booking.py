from routing.booking import Booking
from tests.routing.examples import A, a_request


def booking(*, service_s: float | None, first_byte_at: float | None) -> Booking:
    made = Booking(A, a_request("abc"), 3, 48.0, 0.1, 0.0)
    made.service_s, made.first_byte_at = service_s, first_byte_at
    return made


def test_a_measured_prefill_was_done_whatever_came_after() -> None:
    """A stream that broke after its first byte left its prompt in the cache."""
    measured = booking(service_s=0.1, first_byte_at=0.1)

    assert not measured.is_uncomputed(failed=True)
    assert not measured.is_uncomputed(failed=False)


def test_a_predicted_prefill_is_believed_of_a_worker_that_did_not_fail() -> None:
    """An answer that does not stream shows no first byte; its caller left after the prediction."""
    predicted = booking(service_s=None, first_byte_at=0.1)

    assert predicted.is_uncomputed(failed=True)
    assert not predicted.is_uncomputed(failed=False)


def test_a_prefill_that_cannot_be_over_is_not_done() -> None:
    """The caller left before."""
    assert booking(service_s=None, first_byte_at=None).is_uncomputed(failed=False)

import pytest

from tests.routing.worker_examples import a_worker, booked


class TestSameStep:
    def test_first_bytes_of_one_step_share_its_time_by_their_work(self) -> None:
        """A batch of 1 s and 3 s of work came out after 2 s: half a second and one and a half, not two and nothing."""
        worker = a_worker()
        small, large = booked(worker, 0.0, 1.0), booked(worker, 0.0, 3.0)
        worker.first_byte(small, 2.0)
        worker.first_byte(large, 2.001)

        assert pytest.approx(0.5, abs=0.001) == small.service_s
        assert pytest.approx(1.5, abs=0.001) == large.service_s

    def test_later_first_bytes_are_another_step(self) -> None:
        """Ten milliseconds apart."""
        worker = a_worker()
        one, other = booked(worker, 0.0, 1.0), booked(worker, 0.0, 1.0)
        worker.first_byte(one, 2.0)
        worker.first_byte(other, 2.01)

        assert 2.0 == one.service_s
        assert pytest.approx(0.01) == other.service_s


def test_first_tokens_that_come_at_once_leave_nothing_behind() -> None:
    """Each prompt came when the one before was computed: they were in different steps, however short."""
    worker = a_worker()
    for number in range(100):
        worker.first_byte(booked(worker, 0.01 * number, 0.002), 0.01 * number + 0.002)

    assert 1 == len(worker._step_timer._same_step)

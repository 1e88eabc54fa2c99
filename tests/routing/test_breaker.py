from routing.breaker import Breaker


def test_five_failures_in_a_row_open_it() -> None:
    """The fifth within 30 seconds cuts the worker off."""
    breaker = Breaker()
    for now in (0.0, 1.0, 2.0, 3.0):
        breaker.failed(now)

    assert breaker.allows(3.0)
    assert not breaker.is_open

    breaker.failed(4.0)

    assert not breaker.allows(4.0)
    assert breaker.is_open


def test_a_success_between_failures_starts_the_row_anew() -> None:
    """Four failures, a success and four more failures are not five in a row."""
    breaker = Breaker()
    for _ in range(4):
        breaker.failed(0.0)
    breaker.succeeded()
    for _ in range(4):
        breaker.failed(1.0)

    assert breaker.allows(1.0)


def test_failures_far_apart_do_not_open_it() -> None:
    """A failure every ten seconds never makes five within 30."""
    breaker = Breaker()
    for i in range(100):
        breaker.failed(10.0 * i)

        assert breaker.allows(10.0 * i)


def test_the_window_moves_with_the_failures() -> None:
    """An old failure does not keep five recent ones from opening it; the edge of the window counts."""
    breaker = Breaker()
    breaker.failed(0.0)
    for now in (100.0, 110.0, 120.0, 125.0, 130.0):
        breaker.failed(now)

    assert breaker.is_open


def test_a_single_failure_is_enough_if_so_configured() -> None:
    """The limit may be one."""
    breaker = Breaker(failures=1)
    breaker.failed(0.0)

    assert not breaker.allows(0.0)


def test_one_probe_is_let_through_after_ten_seconds() -> None:
    """While the probe is under way no other request may go."""
    breaker = opened(at=0.0)

    assert not breaker.allows(9.9)
    assert breaker.allows(10.0)

    breaker.sent(10.0)

    assert not breaker.allows(10.0)
    assert breaker.is_open


def test_a_probe_that_succeeds_closes_it() -> None:
    """All requests may go again, and it takes five failures anew."""
    breaker = opened(at=0.0)
    breaker.sent(10.0)
    breaker.succeeded()
    breaker.failed(11.0)

    assert breaker.allows(11.0)
    assert not breaker.is_open


def test_a_probe_that_fails_opens_it_for_as_long_again() -> None:
    """One failure is enough, and the ten seconds count from it."""
    breaker = opened(at=0.0)
    breaker.sent(10.0)
    breaker.failed(12.0)

    assert not breaker.allows(21.9)
    assert breaker.allows(22.0)


def test_a_probe_that_fails_long_after_the_others_opens_it_too() -> None:
    """No five failures lie within 30 seconds, but one is enough while it is open."""
    breaker = opened(at=0.0)
    breaker.sent(100.0)
    breaker.failed(101.0)

    assert not breaker.allows(110.9)
    assert breaker.allows(111.0)


def test_a_probe_that_never_reports_back_is_forgotten() -> None:
    """Its caller may have gone away; after ten seconds another request may try."""
    breaker = opened(at=0.0)
    breaker.sent(10.0)

    assert not breaker.allows(19.9)
    assert breaker.allows(20.0)


def test_requests_sent_while_closed_are_no_probes() -> None:
    """What was sent before the breaker opened does not stand in the way of the probe."""
    breaker = Breaker(failures=1)
    breaker.sent(0.0)
    breaker.failed(1.0)

    assert breaker.allows(11.0)


def test_late_failures_of_earlier_requests_keep_it_open() -> None:
    """Each of them shows that the worker still fails, so the probe waits."""
    breaker = opened(at=0.0)
    breaker.failed(8.0)

    assert not breaker.allows(17.9)
    assert breaker.allows(18.0)


def opened(at: float) -> Breaker:
    breaker = Breaker()
    for _ in range(5):
        breaker.failed(at)
    return breaker

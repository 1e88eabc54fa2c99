from gateway.backends.fallbacks.outage import Outage


def test_an_outage_begins_once() -> None:
    """Until a fallback answers."""
    outage = Outage()

    assert [True, False, False] == [outage.failed(now) for now in (10.0, 11.0, 12.0)]
    assert (5.0, 3) == outage.answered(15.0)
    assert outage.answered(16.0) is None
    assert outage.failed(17.0)


def test_after_a_long_quiet_it_is_another_one() -> None:
    """Workers have answered meanwhile, of which it does not hear."""
    outage = Outage()

    assert [True, True] == [outage.failed(now) for now in (10.0, 400.0)]
    assert (10.0, 1) == outage.answered(410.0)

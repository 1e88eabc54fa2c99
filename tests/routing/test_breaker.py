from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from routing.breaker import Breaker


def test_five_failures_in_a_row_open_it() -> None:
    """The fifth within 30 seconds cuts the worker off."""
    breaker = Breaker()
    for now in (0.0, 1.0, 2.0, 3.0):
        breaker.failed(now, sent_at=now)

    assert breaker.allows(3.0)
    assert not breaker.is_open

    breaker.failed(4.0, sent_at=4.0)

    assert not breaker.allows(4.0)
    assert breaker.is_open


def test_a_success_between_failures_starts_the_row_again() -> None:
    """Four failures, a success and four more failures are not five in a row."""
    breaker = Breaker()
    for _ in range(4):
        breaker.failed(0.0, sent_at=0.0)
    breaker.succeeded(0.0, sent_at=0.0)
    for _ in range(4):
        breaker.failed(1.0, sent_at=0.0)

    assert breaker.allows(1.0)


def test_failures_far_apart_do_not_open_it() -> None:
    """A failure every ten seconds never makes five within 30."""
    breaker = Breaker()
    for i in range(100):
        breaker.failed(10.0 * i, sent_at=10.0 * i)

        assert breaker.allows(10.0 * i)


def test_the_window_moves_with_the_failures() -> None:
    """An old failure does not keep five recent ones from opening it; the edge of the window counts."""
    breaker = Breaker()
    breaker.failed(0.0, sent_at=0.0)
    for now in (100.0, 110.0, 120.0, 125.0, 130.0):
        breaker.failed(now, sent_at=now)

    assert breaker.is_open


def test_a_single_failure_is_enough_if_so_configured() -> None:
    """The limit may be one."""
    breaker = Breaker(failures=1)
    breaker.failed(0.0, sent_at=0.0)

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
    """All requests may go again, and it takes five failures again."""
    breaker = opened(at=0.0)
    breaker.sent(10.0)
    breaker.succeeded(10.5, sent_at=10.0)
    breaker.failed(11.0, sent_at=11.0)

    assert breaker.allows(11.0)
    assert not breaker.is_open


def test_a_probe_that_fails_opens_it_for_twice_as_long() -> None:
    """One failure is enough, and the twenty seconds count from it."""
    breaker = opened(at=0.0)
    breaker.sent(10.0)
    breaker.failed(12.0, sent_at=10.0)

    assert not breaker.allows(31.9)
    assert breaker.allows(32.0)


def test_it_stays_open_for_eight_times_as_long_at_most() -> None:
    """However many probes fail; one that is answered makes all good."""
    breaker = opened(at=0.0)
    now, stays_s = 0.0, []
    for _ in range(6):
        before, now = now, until_allowed(breaker, now)
        stays_s.append(now - before)
        breaker.sent(now)
        breaker.failed(now, sent_at=now)

    assert [10.0, 20.0, 40.0, 80.0, 80.0, 80.0] == stays_s
    now = until_allowed(breaker, now)
    breaker.sent(now)
    breaker.succeeded(now, sent_at=now)
    for _ in range(5):
        breaker.failed(now, sent_at=now)
    assert now + 10.0 == until_allowed(breaker, now)


def test_a_probe_that_fails_long_after_the_others_opens_it_too() -> None:
    """No five failures lie within 30 seconds, but one is enough while it is open."""
    breaker = opened(at=0.0)
    breaker.sent(100.0)
    breaker.failed(101.0, sent_at=100.0)

    assert not breaker.allows(120.9)
    assert breaker.allows(121.0)


def test_a_probe_that_never_reports_back_is_forgotten() -> None:
    """Its caller may have gone away; after ten seconds another request may try."""
    breaker = opened(at=0.0)
    breaker.sent(10.0)

    assert not breaker.allows(19.9)
    assert breaker.allows(20.0)


def test_requests_sent_while_closed_are_no_probes() -> None:
    """A request that was sent before the breaker opened does not prevent the probe."""
    breaker = Breaker(failures=1)
    breaker.sent(0.0)
    breaker.failed(1.0, sent_at=0.0)

    assert breaker.allows(11.0)


def test_late_failures_of_earlier_requests_keep_it_open() -> None:
    """Each of them shows that the worker still fails, so the probe waits."""
    breaker = opened(at=0.0)
    breaker.failed(8.0, sent_at=-5.0)

    assert not breaker.allows(17.9)
    assert breaker.allows(18.0)


def test_late_failures_do_not_shorten_it() -> None:
    """They do not double the time either: nothing was tried."""
    breaker = opened(at=0.0)
    breaker.sent(10.0)
    breaker.failed(11.0, sent_at=10.0)
    breaker.failed(12.0, sent_at=-1.0)

    assert 32.0 == until_allowed(breaker, 12.0)


def test_late_answers_to_earlier_requests_do_not_close_it() -> None:
    """A request from before the failures proves nothing about the present."""
    breaker = opened(at=5.0)
    breaker.succeeded(6.0, sent_at=4.0)

    assert breaker.is_open
    assert not breaker.allows(14.9)


def test_a_probe_that_shows_nothing_makes_room_for_the_next() -> None:
    """Its caller went away, or was wrong: at once, not after ten seconds."""
    breaker = opened(at=0.0)
    breaker.sent(10.0)
    breaker.showed_nothing(sent_at=10.0)

    assert breaker.allows(10.0)
    assert breaker.is_open


def test_what_is_no_probe_shows_nothing_of_it() -> None:
    """An earlier request that is aborted leaves the probe under way."""
    breaker = opened(at=0.0)
    breaker.sent(10.0)
    breaker.showed_nothing(sent_at=-3.0)

    assert not breaker.allows(10.0)


def test_what_shows_nothing_counts_for_nothing() -> None:
    """Four failures, a thousand callers who went away, and one more failure are five in a row."""
    breaker = Breaker()
    for _ in range(4):
        breaker.failed(0.0, sent_at=0.0)
    for _ in range(1000):
        breaker.showed_nothing(sent_at=0.0)
    breaker.failed(1.0, sent_at=1.0)

    assert breaker.is_open


def test_a_new_life_owes_nothing() -> None:
    """The failures in a row, their share and the open time are reset."""
    breaker = opened(at=0.0)
    breaker.sent(10.0)
    breaker.failed(10.0, sent_at=10.0)
    breaker.reset()

    assert breaker.allows(10.0)
    for _ in range(4):
        breaker.failed(11.0, sent_at=11.0)
    assert not breaker.is_open
    breaker.failed(11.0, sent_at=11.0)
    assert 21.0 == until_allowed(breaker, 11.0)


class TestOutlier:
    """A worker that fails often, but never five times in a row."""

    def test_half_of_ten_are_enough(self) -> None:
        """Every other request fails: the tenth outcome opens it."""
        breaker = Breaker()
        opened_after = [len(seen) for seen in outcomes(breaker, "+-" * 10) if breaker.is_open]

        assert 10 == opened_after[0]

    def test_fewer_requests_say_nothing(self) -> None:
        """Four of eight."""
        breaker = Breaker()
        list(outcomes(breaker, "+-" * 4))

        assert not breaker.is_open

    def test_fewer_failures_are_borne(self) -> None:
        """One of three, for as long as it likes."""
        breaker = Breaker()
        list(outcomes(breaker, "++-" * 200, every_s=0.1))

        assert not breaker.is_open

    def test_what_was_long_ago_does_not_count(self) -> None:
        """A bad minute is forgotten after thirty seconds."""
        breaker = Breaker(failures=100)
        list(outcomes(breaker, "----+"))
        list(outcomes(breaker, "++-++", begin=60.0))

        assert not breaker.is_open

    def test_old_answers_do_not_hide_a_worker_that_has_become_bad(self) -> None:
        """A thousand good ones, then every other one fails: it opens within the window."""
        breaker = Breaker()
        list(outcomes(breaker, "+" * 1000, every_s=0.05))
        seen = [at for at in outcomes(breaker, "+-" * 60, begin=50.0) if breaker.is_open]

        assert 31 >= len(seen[0])

    def test_its_numbers_can_be_set(self) -> None:
        """A fifth of five requests."""
        breaker = Breaker(error_share=0.2, min_requests=5)
        list(outcomes(breaker, "++++"))
        breaker.failed(5.0, sent_at=5.0)

        assert breaker.is_open

    def test_after_a_good_probe_the_share_is_counted_again(self) -> None:
        """The first failure does not open it again."""
        breaker = Breaker()
        list(outcomes(breaker, "+-" * 5, every_s=0.1))
        breaker.sent(20.0)
        breaker.succeeded(20.0, sent_at=20.0)
        breaker.failed(21.0, sent_at=21.0)

        assert not breaker.is_open


EVENTS = st.tuples(st.sampled_from(["+", "-", "?", "send"]), st.sampled_from([0.0, 0.5, 3.0, 12.0]), st.integers(0, 50))


@settings(max_examples=200, deadline=None)
@given(events=st.lists(EVENTS, max_size=80))
def test_a_worker_that_has_recovered_gets_its_requests_back(events: list[tuple[str, float, int]]) -> None:
    """Whatever happened before: within eighty seconds of the last failure a request may go, and if it is answered all
    may. While the breaker is open no two may go within ten seconds, save for one that showed nothing."""
    breaker, now, under_way = Breaker(), 0.0, [0.0]
    for what, pause_s, which in events:
        now += pause_s
        if what == "send":
            if breaker.allows(now):
                breaker.sent(now)
                under_way.append(now)

                assert not breaker.is_open or not breaker.allows(now + 9.9)
        else:
            sent_at = under_way.pop(which % len(under_way)) if under_way else now
            if what == "+":
                breaker.succeeded(now, sent_at=sent_at)
            elif what == "-":
                breaker.failed(now, sent_at=sent_at)
            else:
                breaker.showed_nothing(sent_at=sent_at)

    assert breaker.allows(now + 80.0)
    breaker.sent(now + 80.0)
    breaker.succeeded(now + 80.0, sent_at=now + 80.0)
    assert not breaker.is_open


def opened(at: float) -> Breaker:
    breaker = Breaker()
    for _ in range(5):
        breaker.failed(at, sent_at=at)
    return breaker


def outcomes(breaker: Breaker, marks: str, *, begin: float = 0.0, every_s: float = 1.0) -> Iterator[str]:
    """Requests answered (+) and failed (-), one after the other; each time those that have ended."""
    for number, mark in enumerate(marks, start=1):
        now = begin + number * every_s
        if mark == "+":
            breaker.succeeded(now, sent_at=now)
        else:
            breaker.failed(now, sent_at=now)
        yield marks[:number]


def until_allowed(breaker: Breaker, now: float) -> float:
    """When the next request may go, to the tenth of a second."""
    return next(at for at in (now + tenths / 10 for tenths in range(2000)) if breaker.allows(at))

from hypothesis import given
from hypothesis import strategies as st

from gateway.backends.fallbacks.sliding_sum import SlidingSum


def test_what_was_added_counts_for_its_span() -> None:
    spent = SlidingSum(3600.0, 60.0)
    spent.add(2.0, 30.0)
    spent.add(3.0, 61.0)

    assert 5.0 == spent.total(3659.0)
    assert 3.0 == spent.total(3660.0)
    assert 0.0 == spent.total(3720.0)


def test_it_reports_when_it_will_have_fallen_by_an_amount() -> None:
    spent = SlidingSum(60.0, 1.0)
    spent.add(2.0, 0.5)
    spent.add(3.0, 10.5)

    assert 60.0 == spent.falls_by_s(2.0, 1.0)
    assert 70.0 == spent.falls_by_s(2.5, 1.0)
    assert spent.falls_by_s(5.5, 1.0) is None


def test_something_can_be_taken_back() -> None:
    requests = SlidingSum(60.0, 1.0)
    requests.add(1.0, 0.0)
    requests.add(-1.0, 5.0)

    assert 0.0 == requests.total(5.0)


def test_times_that_go_back_count_with_the_newest() -> None:
    requests = SlidingSum(60.0, 1.0)
    requests.add(1.0, 10.0)
    requests.add(1.0, 9.0)

    assert 2.0 == requests.total(9.0)
    assert 0.0 == requests.total(71.0)


@given(st.lists(st.tuples(st.floats(0, 40), st.integers(1, 9)), max_size=40))
def test_it_lies_between_the_exact_sums_of_the_span_and_of_one_slot_more(steps: list[tuple[float, int]]) -> None:
    now, added = 0.0, []
    tested = SlidingSum(60.0, 5.0)
    for pause_s, amount in steps:
        now += pause_s
        tested.add(float(amount), now)
        added.append((now, amount))

        least = sum(each for at, each in added if at > now - 60.0)
        most = sum(each for at, each in added if at >= now - 65.0)
        assert least <= tested.total(now) <= most

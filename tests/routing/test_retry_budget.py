import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.retry_budget import RetryBudget


def taken(budget: RetryBudget, now: float, times: int) -> int:
    """Number of retries that are allowed out of *times*."""
    return sum(budget.spend(now) for _ in range(times))


def test_a_quiet_hour_has_the_floor() -> None:
    """It is ten per second over ten seconds, for any caller."""
    assert 100 == taken(RetryBudget(), 0.0, 500)


def test_the_floor_comes_back_as_the_window_moves() -> None:
    """Taken at once, they are all there again ten seconds later, and none before."""
    budget = RetryBudget()
    taken(budget, 0.0, 500)

    assert [0, 100] == [taken(budget, now, 500) for now in (9.9, 10.0)]


def test_many_requests_have_their_share() -> None:
    """Half of a thousand, beside the floor."""
    budget = RetryBudget(share=0.5, floor_per_s=1.0)
    for _ in range(1000):
        budget.note(0.0)

    assert 510 == taken(budget, 1.0, 2000)


def test_requests_of_the_past_give_no_share() -> None:
    """Their retries are over, one way or another."""
    budget = RetryBudget(share=0.5, floor_per_s=0.0)
    for _ in range(1000):
        budget.note(0.0)

    assert 0 == taken(budget, 60.0, 10)


def test_without_floor_and_share_no_one_retries() -> None:
    """This holds for any number of requests."""
    budget = RetryBudget(share=0.0, floor_per_s=0.0)
    budget.note(0.0)

    assert not budget.spend(0.0)


def test_asking_for_room_takes_nothing() -> None:
    """It only says what would come of it."""
    budget = RetryBudget(share=0.0, floor_per_s=0.1)

    assert [True, True, True, False, False] == [
        budget.has_room(0.0),
        budget.has_room(0.0),
        budget.spend(0.0),
        budget.has_room(0.0),
        budget.spend(0.0),
    ]


@settings(max_examples=200, deadline=None)
@given(
    events=st.lists(st.tuples(st.sampled_from([0.0, 0.05, 0.3, 1.0, 4.0]), st.booleans()), max_size=120),
    share=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
    floor_per_s=st.sampled_from([0.0, 0.25, 2.0]),
)
def test_retries_never_exceed_floor_and_share(
    events: list[tuple[float, bool]], share: float, floor_per_s: float
) -> None:
    """No retry is refused that fits, compared with a count of all events of the running second and nine before."""
    budget, now = RetryBudget(share, floor_per_s, 10.0), 0.0
    requests: list[float] = []
    retries: list[float] = []
    for pause_s, is_retry in events:
        now += pause_s
        if not is_retry:
            budget.note(now)
            requests.append(now)
            continue
        of_late = [[at for at in times if int(at) > int(now) - 10] for times in (requests, retries)]
        room = floor_per_s * 10.0 + share * len(of_late[0]) - len(of_late[1])

        assert (room >= 1.0) == budget.spend(now)

        if room >= 1.0:
            retries.append(now)


@pytest.mark.parametrize("failing", [0.1, 1.0])
def test_a_fleet_that_fails_gets_no_more_than_half_as_much_again(failing: float) -> None:
    """A hundred requests a second for a minute; each that fails would be tried three times more."""
    budget, retries = RetryBudget(floor_per_s=0.0), 0
    for number in range(6000):
        now = number / 100
        budget.note(now)
        if number % 10 < 10 * failing:
            retries += taken(budget, now, 3)

    assert min(3000, 6000 * failing * 3) == pytest.approx(retries, rel=0.02)

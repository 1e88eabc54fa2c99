"""Which prefill workers one request asks, and what is booked there."""

import pytest

from gateway.disaggregation.prefills import MOST_PREFILLS, Prefills
from gateway.errors import ConnectFailed, ReplyBroken, UpstreamTimeout
from gateway.exchange import Exchange
from gateway.persistence import Persistence
from gateway.usage import Usage
from routing.booking import Ending, Outcome
from routing.candidate import Candidate
from tests.fakes.backends import Answers
from tests.gateway.disaggregation.examples import DividedModel, divided_request
from tests.gateway.examples import an_exchange


class Stage:
    """One request before *workers* prefill workers."""

    def __init__(self, workers: int, prompt_tokens: float = 1000.0) -> None:
        self.divided = DividedModel(*(Answers() for _ in range(workers)))
        self.exchange: Exchange = an_exchange()
        request = divided_request("ab", prompt_tokens=prompt_tokens)
        self.prefills = Prefills(
            self.divided.model,
            self.divided.division,
            request,
            self.exchange,
            persistence=Persistence(),
            clock=self.divided.clock,
        )
        [candidate] = self.divided.fleet.candidates(request, 100.0)
        self.decode: Candidate = candidate.changed(remote_tokens=prompt_tokens)

    def take(self) -> str | None:
        """The worker that is asked next, which then fails."""
        taken = self.prefills.take(self.decode)
        if taken is None:
            return None
        backend, place = taken
        with place:
            self.prefills.failed(place, ReplyBroken("no"))
        return backend.id


def test_each_is_asked_once() -> None:
    stage = Stage(2)

    assert ["a", "b", None] == [stage.take() for _ in range(3)]
    assert stage.prefills.has_failed


def test_not_all_of_many() -> None:
    stage = Stage(MOST_PREFILLS + 2)

    assert ["a", "b", "c", None] == [stage.take() for _ in range(4)]


def test_one_in_another_life_is_another() -> None:
    stage = Stage(1)
    assert ["a", None] == [stage.take(), stage.take()]
    worker = next(iter(stage.divided.fleet)).id
    stage.divided.fleet.set_up(worker, up=False)
    stage.divided.fleet.set_up(worker, up=True)

    assert "a" == stage.take()


def test_one_that_left_is_passed_over() -> None:
    """The settings have it no more, and the fleet has not been told yet."""
    stage = Stage(2)
    stage.divided.model.workers = {name: each for name, each in stage.divided.model.workers.items() if name != "a"}

    assert "b" == stage.take()


def test_it_is_told_who_computes_and_with_what_hit() -> None:
    stage = Stage(2)
    fleet = stage.divided.fleet
    [warm, _] = fleet.prefill_candidates(divided_request("ab"), 100.0)
    booking = fleet.book(divided_request("ab"), warm, 100.0)
    assert booking is not None
    fleet.first_byte(booking, 100.0)
    fleet.release(booking, Outcome(Ending.ANSWERED), 100.0)
    assert stage.prefills.take(stage.decode) is not None

    exchange = stage.exchange
    assert ("a", "prefix_aware", "hit", 2) == (
        *(exchange.prefill_worker, exchange.strategy, exchange.reason, exchange.hit_blocks),
    )


def test_a_place_is_given_back_as_it_ended() -> None:
    for tell, expected in (
        (lambda place: None, Outcome(Ending.ABORTED)),
        (lambda place: place.refused(), Outcome(Ending.REFUSED)),
        (lambda place: place.failed(), Outcome(Ending.FAILED)),
        (lambda place: place.answered(None), Outcome(Ending.ANSWERED)),
        (lambda place: place.answered(Usage(9, 1, 4)), Outcome(Ending.ANSWERED, 9, 4)),
    ):
        stage = Stage(1)
        taken = stage.prefills.take(stage.decode)
        assert taken is not None
        with taken[1] as place:
            tell(place)

        assert [expected] == stage.divided.fleet.outcomes


@pytest.mark.parametrize(
    ("error", "up"),
    [
        (ConnectFailed("nobody"), False),
        (UpstreamTimeout("nobody", phase="connect"), False),
        (UpstreamTimeout("slow", phase="first_byte"), True),
    ],
)
def test_nobody_at_its_address_is_down(error: ConnectFailed | UpstreamTimeout, up: bool) -> None:
    stage = Stage(1)
    taken = stage.prefills.take(stage.decode)
    assert taken is not None
    with taken[1] as place:
        place.failed(error)

    assert up == next(iter(stage.divided.fleet)).is_up


def test_until_it_is_known_how_fast_they_are_there_is_no_hurry() -> None:
    stage = Stage(1)
    taken = stage.prefills.take(stage.decode)
    assert taken is not None

    assert None is stage.prefills.first_byte_s(taken[1])


def test_then_another_is_asked_after_three_times_as_long_and_five_seconds() -> None:
    stage = Stage(1)
    taken = stage.prefills.take(stage.decode)
    assert taken is not None
    with taken[1] as place:
        stage.divided.clock.now = 101.0
        place.began()
        place.answered(Usage(1000, 1, 0))
    second = stage.prefills.take(stage.decode)
    assert second is not None
    patience_s = stage.prefills.first_byte_s(second[1])

    assert patience_s is not None
    assert 5.0 + 3 * second[1].booking.work_s == pytest.approx(patience_s)


def test_a_caller_that_raises_gives_the_place_back() -> None:
    stage = Stage(1)
    taken = stage.prefills.take(stage.decode)
    assert taken is not None
    with pytest.raises(KeyError), taken[1]:
        raise KeyError

    assert {"a": 0, "b": 0} == stage.divided.in_flight()

"""The prefill workers of one request, and its slots on them."""

import pytest

from gateway.protocol.errors import ConnectFailed, ReplyBroken, UpstreamTimeout
from gateway.protocol.usage import Usage
from gateway.proxy.exchange import Exchange
from gateway.proxy.kv_transfer.prefill_workers import MAX_PREFILLS, PrefillWorkers
from gateway.proxy.retry_policy import RetryPolicy
from routing.booking import Ending, Outcome
from routing.candidate import Candidate
from tests.fakes.backends import Answers
from tests.gateway.examples import an_exchange
from tests.gateway.proxy.kv_transfer.examples import DividedModel, divided_request

pytestmark = pytest.mark.interpreted


class Stage:
    """One request and the *workers* that may compute its prompt."""

    def __init__(self, workers: int, prompt_tokens: float = 1000.0) -> None:
        self.divided = DividedModel(*(Answers() for _ in range(workers)))
        self.exchange: Exchange = an_exchange()
        request = divided_request("ab", prompt_tokens=prompt_tokens)
        self.prefills = PrefillWorkers(
            self.divided.model,
            self.divided.prefill_decode,
            request,
            self.exchange,
            retry_policy=RetryPolicy(),
            clock=self.divided.clock,
        )
        [candidate] = self.divided.fleet.candidates(request, 100.0)
        self.decode: Candidate = candidate.changed(remote_tokens=prompt_tokens)

    def take(self) -> str | None:
        """Return the next worker, which then fails."""
        taken = self.prefills.reserve(self.decode)
        if taken is None:
            return None
        backend, place = taken
        with place:
            self.prefills.failed(place, ReplyBroken("no"))
        return backend.id


def test_each_worker_is_asked_once() -> None:
    stage = Stage(2)

    assert ["a", "b", None] == [stage.take() for _ in range(3)]
    assert stage.prefills.has_failed


def test_at_most_three_are_asked() -> None:
    stage = Stage(MAX_PREFILLS + 2)

    assert ["a", "b", "c", None] == [stage.take() for _ in range(4)]


def test_a_restarted_worker_is_asked_again() -> None:
    stage = Stage(1)
    assert ["a", None] == [stage.take(), stage.take()]
    worker = next(iter(stage.divided.fleet)).id
    stage.divided.fleet.set_up(worker, up=False)
    stage.divided.fleet.set_up(worker, up=True)

    assert "a" == stage.take()


def test_a_removed_worker_is_skipped() -> None:
    """The settings have removed it; the fleet has not seen that yet."""
    stage = Stage(2)
    stage.divided.model.workers = {name: each for name, each in stage.divided.model.workers.items() if name != "a"}

    assert "b" == stage.take()


def test_the_exchange_has_the_prefill_worker_and_its_hit() -> None:
    stage = Stage(2)
    fleet = stage.divided.fleet
    [warm, _] = fleet.prefill_candidates(divided_request("ab"), 100.0)
    booking = fleet.bookings.book(divided_request("ab"), warm, 100.0)
    assert booking is not None
    fleet.bookings.first_byte(booking, 100.0)
    fleet.bookings.release(booking, Outcome(Ending.ANSWERED), 100.0)
    assert stage.prefills.reserve(stage.decode) is not None

    exchange = stage.exchange
    assert ("a", "prefix_aware", "hit", 2) == (
        *(exchange.prefill_worker, exchange.strategy, exchange.reason, exchange.hit_blocks),
    )


def test_a_slot_is_released_with_its_outcome() -> None:
    for tell, expected in (
        (lambda place: None, Outcome(Ending.ABORTED)),
        (lambda place: place.refused(), Outcome(Ending.REFUSED)),
        (lambda place: place.failed(), Outcome(Ending.FAILED)),
        (lambda place: place.answered(None), Outcome(Ending.ANSWERED)),
        (lambda place: place.answered(Usage(9, 1, 4)), Outcome(Ending.ANSWERED, 9, 4)),
    ):
        stage = Stage(1)
        taken = stage.prefills.reserve(stage.decode)
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
def test_an_unreachable_worker_is_down(error: ConnectFailed | UpstreamTimeout, up: bool) -> None:
    stage = Stage(1)
    taken = stage.prefills.reserve(stage.decode)
    assert taken is not None
    with taken[1] as place:
        place.failed(error)

    assert up == next(iter(stage.divided.fleet)).is_up


def test_there_is_no_deadline_before_the_speed_is_known() -> None:
    stage = Stage(1)
    taken = stage.prefills.reserve(stage.decode)
    assert taken is not None

    assert None is stage.prefills.first_byte_s(taken[1])


def test_another_is_asked_after_three_times_the_prediction_and_five_seconds() -> None:
    stage = Stage(1)
    taken = stage.prefills.reserve(stage.decode)
    assert taken is not None
    with taken[1] as place:
        stage.divided.clock.now = 101.0
        place.began()
        place.answered(Usage(1000, 1, 0))
    second = stage.prefills.reserve(stage.decode)
    assert second is not None
    patience_s = stage.prefills.first_byte_s(second[1])

    assert patience_s is not None
    assert 5.0 + 3 * second[1].booking.work_s == pytest.approx(patience_s)


def test_an_exception_releases_the_slot() -> None:
    stage = Stage(1)
    taken = stage.prefills.reserve(stage.decode)
    assert taken is not None
    with pytest.raises(KeyError), taken[1]:
        raise KeyError

    assert {"a": 0, "b": 0} == stage.divided.in_flight()

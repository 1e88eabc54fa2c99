import signal

import pytest

from gateway.server.asgi import Message, Receive, Send
from gateway.server.stop import SCOPE_KEY, Stop, telling
from tests.gateway.examples import Clock

INT, TERM = signal.SIGINT, signal.SIGTERM


def test_nothing_is_asked_of_a_server_that_nobody_stops() -> None:
    stop = Stop(delay_s=5.0, clock=Clock())

    assert (False, False, False) == (stop.is_asked, stop.is_due, stop.is_forced)


def test_after_sigterm_requests_are_taken_for_a_while() -> None:
    """It is asked at once, and due when the delay is over."""
    clock = Clock(100.0)
    stop = Stop(delay_s=5.0, clock=clock)
    stop.signalled(TERM)
    asked = stop.is_asked, stop.is_due, stop.left_s
    clock.now = 104.9
    before = stop.is_due
    clock.now = 105.0

    assert (True, False, 5.0) == asked
    assert (False, True, False) == (before, stop.is_due, stop.is_forced)


def test_more_of_sigterm_puts_nothing_off() -> None:
    clock = Clock(100.0)
    stop = Stop(delay_s=5.0, clock=clock)
    stop.signalled(TERM)
    clock.now = 104.0
    stop.signalled(TERM)

    assert (1.0, False) == (stop.left_s, stop.is_forced)


@pytest.mark.parametrize(
    ("signals", "due", "forced"),
    [
        ([TERM], False, False),
        ([INT], True, False),
        ([INT, TERM], True, False),
        ([TERM, INT], True, True),
        ([INT, INT], True, True),
        ([INT, INT, TERM], True, True),
    ],
)
def test_sigint_does_not_wait_and_forces_what_was_asked_before(
    signals: list[signal.Signals], due: bool, forced: bool
) -> None:
    stop = Stop(delay_s=5.0, clock=Clock())
    for number in signals:
        stop.signalled(number)

    assert (True, due, forced) == (stop.is_asked, stop.is_due, stop.is_forced)


async def test_applications_find_it_in_the_state_of_their_lifespan() -> None:
    """Which servers copy into the scope of every request; those are passed on as they are."""
    seen: list[Message] = []

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def receive() -> Message:
        raise AssertionError("nothing is asked for")

    async def send(message: Message) -> None:
        raise AssertionError("nothing is said")

    stop = Stop(delay_s=0.0, clock=Clock())
    request: Message = {"type": "http", "state": {"mine": 1}}
    told = telling(app, stop)
    await told({"type": "lifespan", "state": {"mine": 1}}, receive, send)
    await told({"type": "lifespan"}, receive, send)
    await told(request, receive, send)

    assert [{"mine": 1, SCOPE_KEY: stop}, {SCOPE_KEY: stop}] == [scope["state"] for scope in seen[:2]]
    assert seen[2] is request

import signal

import pytest

from gateway.server.asgi import Message, Receive, Send
from gateway.server.stop import SCOPE_KEY, Stop, handled_by, with_stop
from tests.gateway.examples import Clock

INT, TERM = signal.SIGINT, signal.SIGTERM


def test_no_stop_is_requested_at_first() -> None:
    stop = Stop(delay_s=5.0, clock=Clock())

    assert (False, False, False) == (stop.is_requested, stop.is_due, stop.is_forced)


def test_after_sigterm_requests_are_accepted_for_a_while() -> None:
    """The stop is requested at once, and due after the delay."""
    clock = Clock(100.0)
    stop = Stop(delay_s=5.0, clock=clock)
    stop.signalled(TERM)
    requested = stop.is_requested, stop.is_due, stop.left_s
    clock.now = 104.9
    before = stop.is_due
    clock.now = 105.0

    assert (True, False, 5.0) == requested
    assert (False, True, False) == (before, stop.is_due, stop.is_forced)


def test_other_servers_learn_of_the_request_once() -> None:
    """At once, not after the delay."""
    said: list[str] = []
    stop = Stop(delay_s=5.0, clock=Clock())
    stop.on_request(lambda: said.append("requested"))
    for number in (TERM, TERM, INT):
        stop.signalled(number)

    assert ["requested"] == said


def test_a_second_sigterm_delays_nothing() -> None:
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
def test_sigint_does_not_wait_and_forces_a_stop_requested_before(
    signals: list[signal.Signals], due: bool, forced: bool
) -> None:
    stop = Stop(delay_s=5.0, clock=Clock())
    for number in signals:
        stop.signalled(number)

    assert (True, due, forced) == (stop.is_requested, stop.is_due, stop.is_forced)


async def test_applications_find_it_in_the_state_of_their_lifespan() -> None:
    """Requests pass unchanged."""
    seen: list[Message] = []

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def receive() -> Message:
        raise AssertionError("unexpected")

    async def send(message: Message) -> None:
        raise AssertionError("unexpected")

    stop = Stop(delay_s=0.0, clock=Clock())
    request: Message = {"type": "http", "state": {"mine": 1}}
    stoppable = with_stop(app, stop)
    await stoppable({"type": "lifespan", "state": {"mine": 1}}, receive, send)
    await stoppable({"type": "lifespan"}, receive, send)
    await stoppable(request, receive, send)

    assert [{"mine": 1, SCOPE_KEY: stop}, {SCOPE_KEY: stop}] == [scope["state"] for scope in seen[:2]]
    assert seen[2] is request


def test_stop_signals_are_handled_inside_the_block_only() -> None:
    """Afterwards the former handlers are back."""
    outer: list[int] = []
    inner: list[int] = []

    with handled_by(lambda number, _: outer.append(number)):
        with handled_by(lambda number, _: inner.append(number)):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)

    assert [signal.SIGINT, signal.SIGTERM] == inner
    assert [signal.SIGTERM] == outer

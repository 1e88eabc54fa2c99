"""Replies are closed and slots are released, however a request ends."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.errors import GatewayError, InvalidField, ReplyBroken
from gateway.proxy.attempt import Attempt
from gateway.proxy.attempts import Attempts
from routing.booking import Ending
from tests.fakes.backends import Answers, BreaksAfter, Fake, Hangs, Raises, Refuses, Streams
from tests.gateway.examples import (
    DONE,
    ERROR,
    HELLO,
    USAGE,
    WHOLE,
    WatchedFleet,
    a_model,
    in_flight,
)
from tests.gateway.proxy.trial import Trial, asked

pytestmark = pytest.mark.interpreted

BEHAVIORS: dict[str, Callable[[], Fake]] = {
    "answers": lambda: Answers(200, WHOLE),
    "answers 400": lambda: Answers(400),
    "answers 429": lambda: Answers(429),
    "answers 500": lambda: Answers(500),
    "refuses": Refuses,
    "breaks at once": lambda: BreaksAfter(0),
    "breaks in the first event": lambda: BreaksAfter(1, HELLO[:5]),
    "breaks in the stream": lambda: BreaksAfter(1, HELLO),
    "streams": lambda: Streams(HELLO, USAGE, DONE),
    "streams an error": lambda: Streams(ERROR),
    "streams nothing": Streams,
    "fails in a way nobody foresaw": lambda: Raises(RuntimeError("?")),
    "cannot serve it": lambda: Raises(InvalidField("no", param="n")),
}
WAYS_TO_END: dict[str, Callable[[Attempts, Attempt], object]] = {
    "answered": Attempts.answered,
    "broken": lambda attempts, _: attempts.broken(ReplyBroken("cut")),
    "left": lambda _, __: None,
}


@given(
    st.lists(st.lists(st.sampled_from(sorted(BEHAVIORS)), max_size=4), min_size=1, max_size=3),
    st.sampled_from([None, *sorted(BEHAVIORS)]),
    st.booleans(),
    st.sampled_from([None, 1, 2]),
    st.sampled_from(sorted(WAYS_TO_END)),
)
def test_slots_and_replies_are_given_back_exactly_once(
    requests: Sequence[Sequence[str]], fallback: str | None, streams: bool, most: int | None, way: str
) -> None:
    """No load and no open reply is left, however workers fail and the request ends."""
    asyncio.run(_given_back(requests, fallback, streams=streams, most=most, way=way))


async def _given_back(
    requests: Sequence[Sequence[str]], fallback: str | None, *, streams: bool, most: int | None, way: str
) -> None:
    for behaviors in requests:
        workers = [BEHAVIORS[behavior]() for behavior in behaviors]
        last = BEHAVIORS[fallback]() if fallback else None
        fleet = WatchedFleet(len(workers))
        trial = Trial(a_model(*workers, fallback=last, fleet=fleet), streams=streams, most=most)
        with contextlib.suppress(GatewayError, RuntimeError):
            await trial.run(then=WAYS_TO_END[way])

        assert dict.fromkeys("abcd"[: len(workers)], 0) == in_flight(trial.model)
        assert fleet.booked == fleet.released
        assert sum(trial.loads.values()) <= 1
        assert all(reply.closed for worker in workers for reply in worker.replies)
        assert last is None or all(reply.closed for reply in last.replies)
        assert max(asked(*workers), default=0) <= 1


@pytest.mark.parametrize("worker", [Hangs(), Hangs(HELLO[:5])])
async def test_a_cancellation_while_waiting_gives_everything_back(worker: Hangs) -> None:
    """It comes before the status, or before the first event is complete."""
    fleet = WatchedFleet(1)
    trial = Trial(a_model(worker, fleet=fleet), streams=True)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(trial.run())
        await worker.hanging.wait()
        running.cancel()

    assert running.cancelled()
    assert [("a", Ending.ABORTED)] == fleet.endings
    assert {"a": 0} == in_flight(trial.model)
    assert worker.given_up
    assert all(reply.closed for reply in worker.replies)

"""Replay of a slice of traffic through one router, and its results."""

import asyncio
import time
from collections.abc import Sequence

from benchmarks.peers.routing.asking import Answer, Door
from benchmarks.peers.routing.slices import Session


async def play(sessions: Sequence[Session], door: Door, *, speed: float) -> list[Answer]:
    """All answers, in the order in which they ended.

    *speed*: seconds of the workers that pass in one of the clock; the times of *sessions* are those of the workers, the
    times of the answers those of the clock. A session whose request failed goes on, as a user would who asks again.
    """
    begun = time.monotonic()
    answers: list[Answer] = []

    async def live(session: Session) -> None:
        due = begun + session.begins_s / speed
        for turn in session.turns:
            due += turn.wait_s / speed
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            answer = await door.ask(turn.body(), due=due)
            answers.append(answer)
            due += answer.e2e_s

    async with asyncio.TaskGroup() as everybody:
        for session in sessions:
            everybody.create_task(live(session))
    return answers

"""Reservations of concurrent requests, sent to the store in one call for each team.

One of the waiting requests, the leader, sends the reservations of all. The first leader waits for the other requests of
the same turn of the event loop. Requests that come during the call wait, and one of them becomes the next leader. A
call for each request would cost a gateway more than the rest of the request.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

BATCH: Final = 32
"""Maximum number of reservations in one call, which takes Redis about 1 ms."""

Numbers = Sequence[float]
"""Answer of the store to one reservation."""
Reservable = tuple[str, bytes]
"""Id of a reservation, and its content in the form of the store."""
Send = Callable[[str, Sequence[Reservable]], Awaitable[Sequence[Numbers]]]
"""Function that sends reservations of a team to the store, and returns the answers in the same order. A reservation may
be sent again, which has no further effect.
"""
_Waiting = tuple[Reservable, "asyncio.Future[Numbers | None]"]
"""Reservation that waits, and its answer. The answer None makes the request the leader."""


class BatchedReservations:
    """Reservations that wait for an answer of the store, by team. *send* sends those of one team."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: dict[str, list[_Waiting]] = {}
        """Reservations that are not sent yet. It contains each team that has a leader."""

    async def ask(self, team: str, reservable: Reservable) -> Numbers:
        """Send *reservable*, and return the store's answer. Takes up to two round trips if others are under way.

        Raises:
            StoreUnavailable: if the store cannot be reached. It may have reserved the units.
        """
        waiting = self._waiting.get(team)
        if waiting is None:
            self._waiting[team] = []
        else:
            answer: asyncio.Future[Numbers | None] = asyncio.get_running_loop().create_future()
            waiting.append((reservable, answer))
            numbers = await self._answered(team, answer)
            if numbers is not None:
                return numbers
        return await self._lead(team, reservable)

    async def _answered(self, team: str, answer: "asyncio.Future[Numbers | None]") -> Numbers | None:
        try:
            return await answer
        except asyncio.CancelledError:
            if not answer.cancelled() and answer.exception() is None and answer.result() is None:
                self._choose_leader(team)  # this one leaves
            raise

    async def _lead(self, team: str, reservable: Reservable) -> Numbers:
        """Send *reservable* together with others of *team*. If the call fails, all that wait fail, so that none of them
        waits for a second failure.
        """
        waiting = self._waiting[team]
        batch: list[_Waiting] = []
        try:
            await asyncio.sleep(0)
            batch, waiting[: BATCH - 1] = waiting[: BATCH - 1], []
            batch = [each for each in batch if not each[1].done()]  # the others' callers have left
            numbers = await self._send(team, [reservable, *(each for each, _ in batch)])
            for (_, answer), each in zip(batch, numbers[1:], strict=True):
                if not answer.done():
                    answer.set_result(each)
        except asyncio.CancelledError:
            waiting[:0] = batch
            self._choose_leader(team)
            raise
        except Exception as fault:
            del self._waiting[team]
            for _, answer in (*batch, *waiting):
                if not answer.done():
                    answer.set_exception(fault)
            raise
        self._choose_leader(team)
        return numbers[0]

    def _choose_leader(self, team: str) -> None:
        """Make the next waiting request of *team* the leader, if there is any."""
        waiting = self._waiting[team]
        while waiting:
            _, answer = waiting.pop(0)
            if not answer.done():
                answer.set_result(None)
                return
        del self._waiting[team]

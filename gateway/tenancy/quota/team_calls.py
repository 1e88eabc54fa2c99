"""Background calls to the store. Each call is for one team, and several calls run at the same time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from gateway.protocol.errors import StoreUnavailable
from gateway.storage.redis_link import OPEN_S, StoreRefuses

_log = logging.getLogger(__name__)

AT_ONCE = 8
"""Maximum number of simultaneous background calls. Requests use the other connections of the pool."""


class TeamCalls:
    """Runner of a call for each team. If the store refuses the call for a team, the refusal is logged, and the call is
    tried again without delaying other teams.
    """

    def __init__(self, work: asyncio.Event) -> None:
        """Create the runner. *work* is an event that is set when the call for a refused team must be tried again."""
        self._work = work
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._refused: set[str] = set()

    async def call_for_all(self, act: Callable[[str], Awaitable[None]], teams: Iterable[str]) -> None:
        """Await *act* for each team in *teams*.

        Raises:
            StoreUnavailable: if the store cannot be reached. The remaining teams were not called.
        """
        faults: list[StoreUnavailable] = []

        async def try_(team: str) -> None:
            async with self._at_once:
                if not faults:
                    try:
                        await act(team)
                        self._refused.discard(team)
                    except StoreRefuses as fault:
                        self._note_refused(team, fault)
                    except StoreUnavailable as fault:
                        faults.append(fault)

        async with asyncio.TaskGroup() as tasks:
            for team in teams:
                tasks.create_task(try_(team))
        if faults:
            raise faults[0]

    def _note_refused(self, team: str, fault: StoreRefuses) -> None:
        if team not in self._refused:
            self._refused.add(team)
            _log.error("settlements and leases of team %s are delayed: %s", team, fault.message)
        asyncio.get_running_loop().call_later(OPEN_S, self._work.set)

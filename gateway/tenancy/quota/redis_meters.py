"""Limits counted in Redis. One atomic script works on the keys of a team, so that all gateways see the same state.

    warmgate:{TEAM}:quota:meters     hash, a field per limit
    warmgate:{TEAM}:quota:held       hash, a field per reservation that is not settled
    warmgate:{TEAM}:quota:ends       sorted set, the lease ends of those reservations
    warmgate:{TEAM}:quota:ended      sorted set, ended reservations, for which nothing more is booked
    warmgate:{TEAM}:quota:writer:ID  number of the last operation of a gateway; kept for a week
    warmgate:quota:teams             sorted set of the teams that reserved something within an hour, by time

The script uses the clock of Redis. A limit takes about 60 bytes, and a held reservation about 700 bytes. Unused limits
are deleted, and Redis keys that are not used expire after 35 days.
"""

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from hashlib import sha1
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast

import msgspec
from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from gateway.storage.redis_link import RedisLink, StoreRefuses
from gateway.tenancy.ledger import redis_usage
from gateway.tenancy.ledger.entry import Draft
from gateway.tenancy.quota.batched_reservations import BatchedReservations, Reservable
from gateway.tenancy.quota.limit import Charge, Granted, Level, Refused
from gateway.tenancy.quota.meter import SLACK_UNITS
from gateway.tenancy.quota.meters import CROWDED_WAIT_S, MAX_LIMITS
from gateway.tenancy.quota.redis_operation import (
    Operation,
    packed_charges,
    packed_hold,
    packed_operations,
    packed_reservables,
)

GRANTED: Final = 1
"""First number of the script's answer to a reservation that was granted."""
CROWDED: Final = 2
"""First number of the script's answer to a reservation of a further end user or session while the team has too many."""
MOST_CHARGES = 1000
"""Maximum number of limits to read with one call. Lua puts them on its stack, which has room for about 8,000."""
TEAMS = b"warmgate:quota:teams"
LATELY_S = 3600.0
"""Seconds after which a team counts as idle. They exceed any lease, with a margin for clock errors."""

SCRIPT = redis_usage.LUA + Path(__file__).with_name("redis_meters.lua").read_text(encoding="utf-8")
_SHA = sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()
"""SHA-1 of the Lua script, by which Redis identifies the script."""

CARRIED: Final = 32
"""Maximum number of waiting operations that a call with reservations carries out first."""

_pack = msgspec.msgpack.encode
_NUMBERS = msgspec.msgpack.Decoder(list[float])
_ANSWERS = msgspec.msgpack.Decoder(list[list[float]])


class Waiting(Protocol):
    """Operations that wait to be carried out, see `gateway.tenancy.quota.outbox.WaitingOperations`."""

    def first(self, team: str, most: int) -> tuple[int, list[Operation]]:
        """Return the number of the oldest operation of *team*, and the first *most* operations."""
        ...

    def done(self, team: str, last: int) -> None:
        """Mark the operations of *team* up to the number *last* as completed."""
        ...


class Tended(NamedTuple):
    lost: int
    """Number of reservations that were settled because their lease had ended. More of them can remain."""
    held: int
    cursor: int
    """Cursor from which the next call continues the sweep, or 0 if the sweep is complete."""


class RedisMeters:
    """Calls of the Redis script, one round trip each. A call that raises StoreUnavailable might have taken effect.

    Concurrent reservations of a team share a call, which carries out the team's oldest waiting operations first. So a
    caller whose answer has ended finds the units that it no longer uses.
    """

    def __init__(
        self,
        link: RedisLink,
        *,
        lease_s: float,
        writer: str,
        now: Callable[[], float] | None = None,
        max_limits: int = MAX_LIMITS,
        waiting: Waiting | None = None,
    ) -> None:
        """Create the object. *writer* is the id of this gateway and must never be reused. In tests, *now* returns
        seconds since 1970. If it is None, the Redis clock is used. A team with *max_limits* limits in use gets no
        limits of further end users and sessions. *waiting* holds operations of this gateway.
        """
        self._waiting = waiting
        self._max_limits = max_limits
        self._link = link
        self._lease_s = lease_s
        self._writer = writer
        self._now = now
        self._reservations = BatchedReservations(self._reserve_all)

    async def reserve(self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft) -> Granted | Refused:
        """Reserve all *charges*, or nothing. A repeated call for the same *reservation* is granted and reserves nothing
        more.

        *lost* is called at once, unless a charge exceeds its limit.
        """
        never_fits = any(charge.units > charge.limit.amount + SLACK_UNITS for charge in charges)
        held = packed_hold(charges, None if never_fits else lost())
        numbers = await self._reservations.ask(team, (reservation, held))
        levels = tuple(map(Level, numbers[3::2], numbers[4::2]))
        if numbers[0] == GRANTED:
            return Granted(levels)
        if numbers[0] == CROWDED:
            return Refused(int(numbers[1]), CROWDED_WAIT_S, levels, is_crowded=True)
        return Refused(int(numbers[1]), math.inf if numbers[2] < 0 else numbers[2], levels)

    async def spent(self, team: str, charges: Sequence[Charge]) -> list[float]:
        """Return the used or reserved units of the period limits in *charges*. They can exceed the limits."""
        found: list[float] = []
        for begin in range(0, len(charges), MOST_CHARGES):
            part = charges[begin : begin + MOST_CHARGES]
            found += _NUMBERS.decode(await self._run(team, "spent", packed_charges(part)))
        return found

    async def refund(self, team: str, charges: Sequence[Charge]) -> None:
        """Reduce the used units of the period limits in *charges*."""
        await self._run(team, "refund", packed_charges(charges))

    async def carry_out(self, team: str, first: int, operations: Sequence[Operation]) -> None:
        """Execute *operations* in order, each exactly once. *first* is the number of the first operation for this
        gateway and team.

        Numbers of a team increase by one. The store skips numbers that it has already seen.
        """
        await self._run(team, "carry_out", packed_operations(first, operations))

    async def tend(self, team: str, alive: Sequence[str], *, cursor: int = 0) -> Tended:
        """Renew the leases of *alive*, settle reservations with ended leases, and delete some of the unused limits."""
        lost, held, after = await self._run(team, "tend", cursor, *alive)
        return Tended(lost, held, int(after))

    async def register(self, teams: Collection[str], at: float) -> None:
        """Announce to all gateways that *teams* have reservations and ledger records.

        *at* is in seconds since 1970, to the hour.
        """

        async def question(client: "Redis") -> None:
            await client.zadd(TEAMS, dict.fromkeys(teams, at))
            await client.sadd(redis_usage.TEAMS, *teams)

        await self._link.ask(question)

    async def teams(self, at: float) -> list[str]:
        """Return the teams that were registered in the hour before *at*. They can have reservations."""

        async def question(client: "Redis") -> list[bytes]:
            await client.zremrangebyscore(TEAMS, "-inf", at - LATELY_S)
            return cast("list[bytes]", await client.zrange(TEAMS, 0, -1))

        return [name.decode() for name in await self._link.ask(question)]

    async def check(self) -> None:
        """Check that the store accepts writes, which a read would not show."""
        await self._link.ask(lambda client: client.set(b"warmgate:quota:check", b"1", ex=60))

    async def _reserve_all(self, team: str, reservables: Sequence[Reservable]) -> list[list[float]]:
        packed = packed_reservables(reservables)
        first, operations = (0, []) if self._waiting is None else self._waiting.first(team, CARRIED)
        if operations and self._waiting is not None:
            with suppress(StoreRefuses):  # no request waits for an operation that cannot be carried out
                answers = await self._run(team, "reserve", packed, packed_operations(first, operations))
                self._waiting.done(team, first + len(operations) - 1)
                return _ANSWERS.decode(answers)
        return _ANSWERS.decode(await self._run(team, "reserve", packed))

    async def _run(self, team: str, what: str, *arguments: Any) -> Any:
        base = f"warmgate:{{{team}}}:quota:"
        keys = (base + "meters", base + "held", base + "ends", base + "ended", base + "writer:" + self._writer)
        when = _pack((0 if self._now is None else self._now(), self._lease_s, self._max_limits))

        async def question(client: "Redis") -> Any:
            asked = (len(keys), *keys, what, when, *arguments)
            try:
                return await client.evalsha(_SHA, *asked)
            except NoScriptError:  # first call, a restart, or another node of a cluster
                return await client.eval(SCRIPT, *asked)

        return await self._link.ask(question)

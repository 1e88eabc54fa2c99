"""Limits counted in Redis: one script over the keys of one team, so that all of its gateways see the same, atomically.

    warmgate:{TEAM}:quota:meters     hash, a field per limit
    warmgate:{TEAM}:quota:held       hash, a field per reservation that is not settled
    warmgate:{TEAM}:quota:ends       sorted set, when their leases end
    warmgate:{TEAM}:quota:ended      sorted set, reservations of which nothing more is to be booked
    warmgate:{TEAM}:quota:writer:ID  the last operation of a gateway that was carried out; a week
    warmgate:quota:teams             sorted set of the teams that reserved something within an hour, by when

The clock is that of Redis. A limit takes some 60 bytes, a reservation that is held some 700. Who leaves, leaves
nothing: limits that say nothing any more are swept, and what nobody touches is gone after 35 days.
"""

import math
from collections.abc import Callable, Collection, Sequence
from hashlib import sha1
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import msgspec
from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from gateway.ledger import redis_usage
from gateway.ledger.entry import Draft, Entry
from gateway.ledger.redis_usage import booking_of
from gateway.quota.limit import Charge, Granted, Level, Refused
from gateway.quota.meter import SLACK_UNITS
from gateway.storage.redis_link import RedisLink

TEAMS = b"warmgate:quota:teams"
LATELY_S = 3600.0
"""After which a team is not looked after any more: long after the last lease has ended, and whatever clocks say."""

SCRIPT = redis_usage.LUA + Path(__file__).with_name("redis_meters.lua").read_text(encoding="utf-8")
_SHA = sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()
"""As Redis names scripts."""

What = Literal["settle", "book", "drop", "adopt"]

_pack = msgspec.msgpack.encode
_NUMBERS = msgspec.msgpack.Decoder(list[float])
_KINDS = {"rate": "r", "period": "p", "concurrent": "c"}


class Operation(NamedTuple):
    """What nobody waits for. See the functions of these names in `redis_meters.lua`."""

    what: What
    reservation: str
    charges: Sequence[Charge]
    entry: Entry | None
    """adopt: what to book should it be lost. drop: None."""


class Tended(NamedTuple):
    lost: int
    """Reservations whose lease had ended; there may be more."""
    held: int
    cursor: int
    """Of the sweep, for the next call; 0: through."""


class RedisMeters:
    """One round trip per call. Any may raise StoreAway, and may have been carried out then."""

    def __init__(self, link: RedisLink, *, lease_s: float, writer: str, now: Callable[[], float] | None = None) -> None:
        """*writer* is this gateway, unique for ever. *now*, seconds since 1970, is for tests; None: Redis's clock."""
        self._link = link
        self._lease_s = lease_s
        self._writer = writer
        self._now = now

    async def reserve(self, team: str, reservation: str, charges: Sequence[Charge], lost: Draft) -> Granted | Refused:
        """All of *charges*, or nothing. The same reservation again is granted, and takes nothing more.

        *lost* is asked at once, unless there is never room for so much.
        """
        never_fits = any(charge.units > charge.limit.amount + SLACK_UNITS for charge in charges)
        held = _pack((_charges(charges), () if never_fits else _booking(lost())))
        numbers = _NUMBERS.decode(await self._run(team, "reserve", reservation, held))
        levels = tuple(map(Level, numbers[3::2], numbers[4::2]))
        if numbers[0]:
            return Granted(levels)
        return Refused(int(numbers[1]), math.inf if numbers[2] < 0 else numbers[2], levels)

    async def spent(self, team: str, charges: Sequence[Charge]) -> list[float]:
        """What is used or reserved of limits of periods, beyond them too."""
        return _NUMBERS.decode(await self._run(team, "spent", _pack(_charges(charges))))

    async def give(self, team: str, charges: Sequence[Charge]) -> None:
        """Have so much less be used of limits of periods."""
        await self._run(team, "give", _pack(_charges(charges)))

    async def carry_out(self, team: str, first: int, operations: Sequence[Operation]) -> None:
        """In this order, each once: *first* is the number of the first of them among all of this gateway and team.

        The numbers of a team grow by one. What was carried out before, is not again.
        """
        rows = [
            (each.what, each.reservation, _charges(each.charges), () if each.entry is None else _booking(each.entry))
            for each in operations
        ]
        await self._run(team, "carry_out", _pack([first, *rows]))

    async def tend(self, team: str, alive: Sequence[str], *, cursor: int = 0) -> Tended:
        """Renew the leases of *alive*, settle what was lost, forget a little of what says nothing any more."""
        lost, held, after = await self._run(team, "tend", cursor, *alive)
        return Tended(lost, held, int(after))

    async def register(self, teams: Collection[str], at: float) -> None:
        """Tell all gateways of *teams*: that they reserve something, and that the ledger has something of them.

        *at* is in seconds since 1970, to the hour.
        """

        async def question(client: "Redis") -> None:
            await client.zadd(TEAMS, dict.fromkeys(teams, at))
            await client.sadd(redis_usage.TEAMS, *teams)

        await self._link.ask(question)

    async def teams(self, at: float) -> list[str]:
        """Of which something may be held: those that were registered lately."""

        async def question(client: "Redis") -> list[bytes]:
            await client.zremrangebyscore(TEAMS, "-inf", at - LATELY_S)
            return cast("list[bytes]", await client.zrange(TEAMS, 0, -1))

        return [name.decode() for name in await self._link.ask(question)]

    async def check(self) -> None:
        """Whether it can be written; an answer alone would not tell."""
        await self._link.ask(lambda client: client.set(b"warmgate:quota:check", b"1", ex=60))

    async def _run(self, team: str, what: str, *arguments: Any) -> Any:
        base = f"warmgate:{{{team}}}:quota:"
        keys = (base + "meters", base + "held", base + "ends", base + "ended", base + "writer:" + self._writer)
        when = _pack((0 if self._now is None else self._now(), self._lease_s))

        async def question(client: "Redis") -> Any:
            asked = (len(keys), *keys, what, when, *arguments)
            try:
                return await client.evalsha(_SHA, *asked)
            except NoScriptError:  # new here, restarted, or another node of a cluster
                return await client.eval(SCRIPT, *asked)

        return await self._link.ask(question)


def _booking(entry: Entry) -> list[msgspec.Raw]:
    """As texts (str 32 of msgpack), which they are for Lua: the cmsgpack of some Redis knows no bin format."""
    return [msgspec.Raw(b"\xdb" + len(field).to_bytes(4, "big") + field) for field in booking_of(entry)]


def _charges(charges: Sequence[Charge]) -> list[tuple[str, str, float, float, float, str, float, float]]:
    return [
        (
            *(limit.id, _KINDS[limit.kind], limit.amount, limit.burst),
            *(each.units, each.period, each.period_left_s, each.likely),
        )
        for each in charges
        for limit in (each.limit,)
    ]

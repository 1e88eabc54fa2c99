"""The script in Redis, called as gateways call it. Its arithmetic: `tests/contracts/test_quota_cases.py`."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
from redis.asyncio import Redis
from redis.asyncio.client import PubSub

from gateway.storage.redis_link import RedisLink, redis_link
from gateway.tenancy.ledger.entry import Draft, Entry
from gateway.tenancy.ledger.redis_usage import RedisUsage
from gateway.tenancy.ledger.usage_store import Period, RecordQuery
from gateway.tenancy.quota.limit import Charge, Granted, Level, Limit, Refused
from gateway.tenancy.quota.outbox import Outbox, WaitingOperations
from gateway.tenancy.quota.redis_meters import RedisMeters, Tended
from gateway.tenancy.quota.redis_operation import Operation, What
from tests.gateway.tenancy.quota.examples import NOW, SLOTS, TOKENS, entry, usd
from tests.storage import PATIENCE_S, RedisServer, RedisServers, free_port

pytestmark = pytest.mark.redis

LEASE_S = 30.0
CHARGES = (Charge(TOKENS, 60.0), Charge(SLOTS, 1.0), usd(0.5))


class Gateways:
    """Two gateways with one Redis, and its time."""

    def __init__(self, link: RedisLink) -> None:
        self.now = NOW
        self.link = link
        self.one = self.another("one")
        self.two = self.another("two")

    def another(self, writer: str) -> RedisMeters:
        return RedisMeters(self.link, lease_s=LEASE_S, writer=writer, now=lambda: self.now)

    async def pass_by(self, seconds: float) -> None:
        """Let time pass, while a gateway calls every third of a lease."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(self.now + LEASE_S / 3, until)
            await self.two.tend("blue", ())

    async def reserve(self, name: str, *charges: Charge) -> Granted | Refused:
        return await self.one.reserve("blue", name, charges or CHARGES, lambda: entry(f"lost-{name}", outcome="lost"))

    async def left(self) -> list[float]:
        """Return what is left of tokens, slots and dollars."""
        asked = (Charge(TOKENS, 0.0), Charge(SLOTS, 0.0), usd(0.0))
        answer = await self.two.reserve("blue", "look", asked, lambda: entry("look"))
        await self.two.carry_out("blue", self._looks(), [Operation("drop", "look", (), None)])
        assert isinstance(answer, Granted)
        return [level.remaining for level in answer.levels]

    _number = 0

    def _looks(self) -> int:
        self._number += 1
        return self._number

    async def booked(self) -> list[str]:
        day = Period("2026-11-18", "2026-11-18")
        await self.one.register(["blue"], self.now)
        page = await RedisUsage(self.link).records(RecordQuery(period=day), most=1000)
        return sorted(record.request_id for record in page.items)


@pytest.fixture
async def gateways(redis_server: RedisServer) -> AsyncIterator[Gateways]:
    link = redis_link(redis_server.url, timeout_s=PATIENCE_S)
    yield Gateways(link)
    await link.aclose()


def lost_of(team: str) -> Draft:
    return lambda: entry(f"lost-{team}", outcome="lost", team=team)


def settle(name: str, tokens: float, dollars: float = 0.25) -> Operation:
    return Operation("settle", name, (Charge(TOKENS, tokens), Charge(SLOTS, 1.0), usd(dollars)), entry(name))


async def test_a_reservation_that_is_asked_for_again_takes_nothing_more(gateways: Gateways) -> None:
    """The answer to the first call may have been lost."""
    await gateways.reserve("a")
    again = await gateways.reserve("a")

    assert isinstance(again, Granted)
    assert [0.0, 1.0, 0.5] == pytest.approx([level.remaining for level in again.levels])


async def test_an_operation_that_is_sent_again_is_not_carried_out_again(gateways: Gateways) -> None:
    """This holds for any part of a batch, however late it arrives."""
    await gateways.reserve("a")
    operations = [settle("a", 10.0), Operation("book", "", (), entry("b")), Operation("book", "", (), entry("c"))]
    await gateways.one.carry_out("blue", 1, operations[:2])
    await gateways.one.carry_out("blue", 1, operations)
    await gateways.one.carry_out("blue", 1, operations[:1])

    assert ["a", "b", "c"] == await gateways.booked()
    assert [50.0, 2.0, 0.75] == pytest.approx(await gateways.left())


async def test_gateways_number_for_themselves(gateways: Gateways) -> None:
    await gateways.one.carry_out("blue", 1, [Operation("book", "", (), entry("a"))])
    await gateways.two.carry_out("blue", 1, [Operation("book", "", (), entry("b"))])

    assert ["a", "b"] == await gateways.booked()


async def test_an_unknown_reservation_is_charged_even_without_room(gateways: Gateways) -> None:
    """It was granted while the store was unavailable, or the store forgot it. It is booked, and charged once."""
    await gateways.one.carry_out("blue", 1, [settle("a", 100.0, 2.0), settle("a", 100.0, 2.0)])

    assert ["a"] == await gateways.booked()
    assert [0.0, 2.0, 0.0] == pytest.approx(await gateways.left())
    refused = await gateways.reserve("b", Charge(TOKENS, 10.0))
    assert isinstance(refused, Refused)
    assert 5.0 == pytest.approx(refused.wait_s)


async def test_an_adopted_reservation_is_held(gateways: Gateways) -> None:
    """Adopted twice, it is held once, and is settled like any other."""
    adopt = Operation("adopt", "a", CHARGES, entry("lost-a", outcome="lost"))
    await gateways.one.carry_out("blue", 1, [adopt, adopt])
    assert [0.0, 1.0, 0.5] == pytest.approx(await gateways.left())

    await gateways.one.carry_out("blue", 3, [settle("a", 10.0)])
    assert [50.0, 2.0, 0.75] == pytest.approx(await gateways.left())
    assert ["a"] == await gateways.booked()


async def test_a_dropped_reservation_is_given_back(gateways: Gateways) -> None:
    """It is not booked. A reservation that arrives later is not granted."""
    await gateways.reserve("a")
    drops = [Operation("drop", name, (), None) for name in ("a", "b")]
    await gateways.one.carry_out("blue", 1, drops)

    assert [60.0, 2.0, 1.0] == pytest.approx(await gateways.left())
    assert isinstance(await gateways.reserve("b"), Refused)
    assert [60.0, 2.0, 1.0] == pytest.approx(await gateways.left())
    assert [] == await gateways.booked()


async def test_a_lease_that_ends_is_settled_at_what_was_reserved(gateways: Gateways) -> None:
    """The next call finds it and books its `lost` entry. A late settlement changes nothing."""
    await gateways.reserve("a")
    await gateways.pass_by(LEASE_S - 0.1)
    assert 1.0 == (await gateways.left())[1]
    await gateways.pass_by(0.2)
    assert [60.0, 2.0, 0.5] == pytest.approx(await gateways.left())
    await gateways.one.carry_out("blue", 1, [settle("a", 600.0, 0.0)])

    assert ["lost-a"] == await gateways.booked()
    assert [60.0, 2.0, 0.5] == pytest.approx(await gateways.left())


async def test_a_lease_that_is_renewed_does_not_end(gateways: Gateways) -> None:
    await gateways.reserve("a")
    for _ in range(12):
        gateways.now += LEASE_S / 3
        await gateways.one.tend("blue", ["a", "unknown"])
    assert 1.0 == (await gateways.left())[1]
    assert Tended(0, 1, 0) == await gateways.one.tend("blue", [])

    await gateways.pass_by(LEASE_S + 0.1)
    assert 2.0 == (await gateways.left())[1]


async def test_leases_outlive_an_outage_of_the_store(gateways: Gateways) -> None:
    """After a long silence gateways get a lease to renew their reservations."""
    await gateways.reserve("a")
    await gateways.reserve("b", Charge(SLOTS, 1.0))
    gateways.now += 10 * LEASE_S
    assert 0.0 == (await gateways.left())[1]
    await gateways.one.tend("blue", ["a"])
    await gateways.pass_by(LEASE_S - 0.1)
    await gateways.one.tend("blue", ["a"])
    await gateways.pass_by(0.2)

    assert 1.0 == (await gateways.left())[1]
    assert ["lost-b"] == await gateways.booked()


async def test_lost_reservations_are_settled_some_at_a_time(gateways: Gateways) -> None:
    """No request waits long."""
    for number in range(50):
        await gateways.reserve(f"r{number}", usd(0.01))
    await gateways.pass_by(LEASE_S - 0.1)
    gateways.now += 0.2
    lost = [(await gateways.two.tend("blue", ())).lost for _ in range(4)]

    assert [20, 20, 10, 0] == lost
    assert 50 == len(await gateways.booked())


async def test_idle_limits_are_swept(gateways: Gateways, redis_server: RedisServer) -> None:
    """These are full buckets, ended periods, and concurrent limits without requests."""
    for number in range(200):
        await gateways.reserve(
            f"r{number}", Charge(type(TOKENS)(f"key:k{number}/tokens_per_minute", "rate", 60.0, 6.0), 1.0)
        )
        await gateways.one.carry_out("blue", number + 1, [Operation("drop", f"r{number}", (), None)])
    await gateways.reserve("budget", usd(0.5, left_s=2 * LEASE_S))
    await gateways.reserve("slots", Charge(SLOTS, 1.0))
    with redis_server.client() as client:
        assert 203 == client.hlen("warmgate:{blue}:quota:meters")
        await gateways.pass_by(3 * LEASE_S)
        gateways.now += 2 * 3600
        cursor, rounds = 0, 0
        while True:
            cursor, rounds = (await gateways.two.tend("blue", (), cursor=cursor)).cursor, rounds + 1
            if not cursor:
                break
        fields = set(client.hkeys("warmgate:{blue}:quota:meters"))

    assert {b".tended", b".grace"} == fields
    assert rounds <= 20


async def test_everything_of_a_team_that_left_expires(gateways: Gateways, redis_server: RedisServer) -> None:
    """They expire within 35 days of real time, except the ledger, which has its own retention."""
    await gateways.reserve("a")
    await gateways.one.carry_out("blue", 1, [Operation("drop", "b", (), None)])
    with redis_server.client() as client:
        lives = {key: client.ttl(key) for key in client.keys("warmgate:{blue}:quota:*")}

    assert 5 == len(lives)
    assert all(0 < life <= 35 * 86_400 for life in lives.values())


async def test_a_script_that_redis_forgot_is_sent_again(gateways: Gateways, redis_server: RedisServer) -> None:
    """This happens after ``SCRIPT FLUSH`` or a restart."""
    await gateways.reserve("a", Charge(TOKENS, 30.0))
    with redis_server.client() as client:
        client.script_flush()
    second = await gateways.reserve("b", Charge(TOKENS, 30.0))

    assert isinstance(second, Granted)
    assert 0.0 == pytest.approx(second.levels[0].remaining)


async def test_the_clock_is_that_of_redis(gateways: Gateways) -> None:
    """A gateway with a wrong clock counts right."""
    meters = RedisMeters(gateways.link, lease_s=LEASE_S, writer="real")
    first = await meters.reserve("blue", "a", [Charge(TOKENS, 600.0)], lambda: entry("a"))
    second = await meters.reserve("blue", "b", [Charge(TOKENS, 1.0)], lambda: entry("b"))

    assert isinstance(first, Granted)
    assert isinstance(second, Refused)
    assert 54.0 < second.wait_s < 54.1 + 5.0


async def test_a_charge_beyond_its_limit_needs_no_entry(gateways: Gateways) -> None:
    """Nothing is reserved, so nothing can be lost. Status queries rely on this."""

    def nothing() -> Entry:
        raise AssertionError("nothing can be lost")

    refused = await gateways.one.reserve("blue", "a", [Charge(TOKENS, 601.0), usd(3.0)], nothing)

    assert isinstance(refused, Refused)
    assert [60.0, 1.0] == [level.remaining for level in refused.levels]


async def test_the_rights_that_the_readme_names_are_enough(redis_server: RedisServer) -> None:
    """The script needs no dangerous commands."""
    page = (Path(redis_link.__code__.co_filename).parent / "README.md").read_text(encoding="utf-8")
    found = re.search(r"needs the permissions `(~warmgate[^`]+)`", page)
    assert found is not None
    with redis_server.client() as client:
        client.execute_command("ACL", "SETUSER", "ours", "reset", "on", ">x", *found[1].split(), "-@dangerous")
    link = redis_link(f"{redis_server.url}?username=ours&password=x", timeout_s=PATIENCE_S)
    gateways = Gateways(link)
    await gateways.reserve("a")
    await gateways.one.carry_out("blue", 1, [settle("a", 10.0)])
    await gateways.one.tend("blue", ["a"])
    await gateways.one.check()
    messages = await link.ask(subscribed)
    await link.ask(lambda client: client.publish("warmgate:{directory}:changes", ""))

    assert ["a"] == await gateways.booked()
    assert ["blue"] == await gateways.one.teams(NOW)
    await messages.aclose()  # type: ignore[no-untyped-call]
    await link.aclose()


async def subscribed(client: Redis) -> PubSub:
    messages = client.pubsub()
    await messages.subscribe("warmgate:{directory}:changes")
    return messages


async def test_teams_are_looked_after_for_an_hour(gateways: Gateways) -> None:
    await gateways.one.register(["blue", "red"], NOW)
    await gateways.two.register(["red"], NOW + 1.0)

    assert ["blue", "red"] == await gateways.two.teams(NOW + 3599.0)
    assert ["red"] == await gateways.two.teams(NOW + 3600.0)


async def test_it_works_in_a_cluster(redis_servers: RedisServers) -> None:
    """All keys of a team are in one slot, and are named in advance or have its hash tag."""
    server = redis_servers.make(port=free_port())
    server.start_cluster()
    link = redis_link(f"redis://127.0.0.1:{server.port}/0?cluster=true", timeout_s=PATIENCE_S)
    gateways = Gateways(link)
    for team in ("blue", "red", "green"):
        charges = [Charge(TOKENS, 60.0)]
        assert isinstance(await gateways.one.reserve(team, team, charges, lost_of(team)), Granted)
        assert isinstance(await gateways.two.reserve(team, "b", charges, lost_of(team)), Refused)
        operation = Operation("settle", team, [Charge(TOKENS, 0.0)], entry(team, team=team))
        await gateways.one.carry_out(team, 1, [operation])
        assert isinstance(await gateways.two.reserve(team, "c", charges, lost_of(team)), Granted)
    await gateways.one.register(["blue", "red", "green"], NOW)

    assert {"blue", "red", "green"} == set(await gateways.two.teams(NOW))
    assert ["blue", "green", "red"] == await gateways.booked()
    await link.aclose()


def of_user(number: int) -> Charge:
    return Charge(Limit(f"user:{number}/tokens_per_minute", "rate", 60.0, burst=60.0), 60.0)


async def test_a_crowd_of_end_users_is_refused_and_others_are_not(gateways: Gateways) -> None:
    """Limits that operators name are always counted, and so are end users who are counted already."""
    gateways.one = RedisMeters(gateways.link, lease_s=LEASE_S, writer="one", now=lambda: gateways.now, max_limits=5)
    answers = [await gateways.reserve(f"r{number}", of_user(number)) for number in range(10)]
    granted = sum(isinstance(each, Granted) for each in answers)
    refused = await gateways.reserve("r10", Charge(TOKENS, 1.0), of_user(10))

    assert granted in {3, 4, 5}  # the fields with the times of calls count, too
    assert Refused(1, 60.0, (Level(60.0, 0.0), Level(60.0, 0.0)), is_crowded=True) == refused
    assert isinstance(await gateways.reserve("r11", Charge(TOKENS, 1.0)), Granted)


async def test_a_crowd_ends_when_limits_fall_out_of_use(gateways: Gateways) -> None:
    gateways.one = RedisMeters(gateways.link, lease_s=LEASE_S, writer="one", now=lambda: gateways.now, max_limits=400)
    for number in range(500):
        answer = await gateways.reserve(f"r{number}", of_user(number))
    assert isinstance(answer, Refused)
    await gateways.pass_by(130.0)
    later = [await gateways.reserve(f"s{number}", of_user(1000 + number)) for number in range(30)]

    assert isinstance(later[-1], Granted)


async def test_many_budgets_are_read_in_parts(gateways: Gateways) -> None:
    budgets = [Charge(Limit(f"user:{n}/usd_per_day", "period", 9.0), 0.0, "2026-11-18", 60.0) for n in range(9000)]

    assert [0.0] * 9000 == await gateways.one.spent("blue", budgets)


async def test_concurrent_reservations_are_decided_in_one_call_and_in_order(gateways: Gateways) -> None:
    """Each counts for those behind it: two of the slots are taken, and the third request finds none."""
    slots = Limit("team:concurrent", "concurrent", 2.0)
    before = await calls_of(gateways.link)
    answers = await asyncio.gather(*(gateways.reserve(f"r{number}", Charge(slots, 1.0)) for number in range(4)))

    assert [Granted, Granted, Refused, Refused] == [type(each) for each in answers]
    assert [1.0, 0.0, 0.0, 0.0] == [each.levels[0].remaining for each in answers]
    assert 1 == await calls_of(gateways.link) - before


async def test_end_users_of_one_call_do_not_exceed_the_limits_of_a_team(gateways: Gateways) -> None:
    """Limits that the same call adds count, although they are not written yet."""
    crowd = RedisMeters(gateways.link, lease_s=LEASE_S, writer="crowd", now=lambda: gateways.now, max_limits=3)
    limits = [Limit(f"user:{number}:requests", "rate", 60.0, burst=60.0) for number in range(6)]
    answers = await asyncio.gather(
        *(crowd.reserve("blue", limit.id, (Charge(limit, 1.0),), lambda: entry("lost")) for limit in limits)
    )

    refused = [each.is_crowded for each in answers if isinstance(each, Refused)]
    assert refused
    assert all(refused)
    assert len(answers) - len(refused) <= 3


def with_waiting(gateways: Gateways, *operations: Operation) -> tuple[RedisMeters, Outbox]:
    """Return a gateway with operations that wait to be sent."""
    outbox = Outbox()
    for each in operations:
        outbox.add("blue", each)
    waiting = WaitingOperations(outbox, clock=lambda: gateways.now)
    return RedisMeters(gateways.link, lease_s=LEASE_S, writer="w", now=lambda: gateways.now, waiting=waiting), outbox


async def test_a_reservation_comes_behind_the_settlements_that_wait(gateways: Gateways) -> None:
    """A caller with one slot finds it free when its answer has ended, in the same call."""
    slot = Charge(Limit("team:concurrent", "concurrent", 1.0), 1.0)
    meters, outbox = with_waiting(gateways, Operation("settle", "first", (slot,), entry("first")))
    assert isinstance(await meters.reserve("blue", "other", (usd(0.5),), lambda: entry("lost")), Granted)
    assert 0 == len(outbox)
    assert isinstance(await meters.reserve("blue", "second", (slot,), lambda: entry("lost")), Granted)
    outbox.add("blue", Operation("settle", "second", (slot,), entry("second")))
    before = await calls_of(gateways.link)

    assert isinstance(await meters.reserve("blue", "third", (slot,), lambda: entry("lost")), Granted)
    assert 0 == len(outbox)
    assert 1 == await calls_of(gateways.link) - before
    assert ["first", "second"] == await gateways.booked()


async def test_an_operation_that_is_refused_stops_no_reservation(gateways: Gateways) -> None:
    """It goes on to wait, and the reservation is made without it."""
    strange = Operation(cast("What", "strange"), "first", (), None)
    meters, outbox = with_waiting(gateways, strange)

    assert isinstance(await meters.reserve("blue", "second", (usd(0.5),), lambda: entry("lost")), Granted)
    assert 1 == len(outbox)


async def calls_of(link: RedisLink) -> int:
    """Return how often scripts were called by their digests."""
    return await link.ask(_script_calls)


async def _script_calls(redis: "Redis") -> int:
    found = await redis.info("commandstats")
    return int(found.get("cmdstat_evalsha", {"calls": 0})["calls"])

"""Making something once."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.api.admin_access import key_of_person
from gateway.api.admin_v1.claims import Claim
from gateway.api.admin_v1.repetition import MadeOnce, made_once, repeatable_secret
from gateway.api.admin_v1.sqlite_claims import SqliteClaims
from gateway.protocol.errors import Conflict, StoreUnavailable
from gateway.tenancy.identity.admin_person import AdminPerson
from gateway.tenancy.identity.role_rule import RoleGrant
from tests.gateway.api.admin_v1.administration import Administration

ONE = Claim("id", "body", "blue")


class Things:
    """What is there; *before* is called when something is about to be made."""

    def __init__(self, admin: Administration, *names: str) -> None:
        self.there = set(names)
        self.made: list[str] = []
        self.claims = SqliteClaims(admin.file, wall_clock=admin.clock)
        self.before: Callable[[], Awaitable[None]] | None = None

    async def exists(self, name: str) -> bool:
        return name in self.there

    async def make(self, name: str, seed: str) -> None:
        if self.before is not None:
            await self.before()
        if name in self.there:
            raise Conflict("it is there")
        self.there.add(name)
        self.made.append(f"{name} {seed}".rstrip())

    async def once(self, claim: Claim = ONE) -> MadeOnce:
        return await made_once(claim, self.claims, exists=self.exists, make=self.make)


async def test_a_repetition_makes_nothing(admin: Administration) -> None:
    things = Things(admin)

    assert MadeOnce("blue", repeats=False) == await things.once()
    assert MadeOnce("blue", repeats=True) == await things.once()
    assert ["blue"] == things.made


async def test_a_repetition_that_chose_another_name_gets_the_first_one(admin: Administration) -> None:
    things = Things(admin)
    await things.once()

    assert MadeOnce("blue", repeats=True) == await things.once(Claim("id", "body", "k123"))


async def test_another_request_with_the_same_header_is_refused(admin: Administration) -> None:
    things = Things(admin)
    await things.once()
    with pytest.raises(Conflict) as caught:
        await things.once(Claim("id", "another", "red"))

    assert "idempotency-key" == caught.value.param
    assert ["blue"] == things.made


async def test_what_was_there_before_is_no_ones_repetition(admin: Administration) -> None:
    things = Things(admin, "blue")
    for _ in range(2):
        with pytest.raises(Conflict):
            await things.once()


async def test_what_failed_is_made_by_the_repetition(admin: Administration) -> None:
    """The answer got lost, or there was not one."""
    things = Things(admin)

    async def fail() -> None:
        raise StoreUnavailable("gone")

    things.before = fail
    with pytest.raises(StoreUnavailable):
        await things.once()
    things.before = None

    assert MadeOnce("blue", repeats=False) == await things.once()


async def test_the_caller_that_is_faster_has_it(admin: Administration) -> None:
    """Somebody else makes one of that name in the meantime: that is theirs, also when the request is repeated."""
    things = Things(admin)

    async def another() -> None:
        things.there.add("blue")

    things.before = another
    for _ in range(2):
        with pytest.raises(Conflict):
            await things.once()


async def test_of_many_at_once_one_makes_it(admin: Administration) -> None:
    """The others repeat it, or are reported of a conflict; nothing is made twice."""
    things = Things(admin)

    async def turn() -> None:
        await asyncio.sleep(0)

    things.before = turn
    results = await asyncio.gather(*(things.once() for _ in range(10)), return_exceptions=True)

    assert ["blue"] == things.made
    assert 1 == sum(result == MadeOnce("blue", repeats=False) for result in results)
    assert all(isinstance(result, MadeOnce | Conflict) for result in results)


def test_the_secret_of_a_repeated_request_depends_on_a_secret_of_the_caller() -> None:
    """Also for people, who have tokens and no admin keys: the store and a short header do not suffice."""
    person = AdminPerson("okta", "alice", RoleGrant("owner"), 1.0, 0.0)
    keys = [key_of_person(person, token) for token in ("token-1", "token-2")]
    derived = [repeatable_secret("k1", seed="s", header="1", admin_secret=key.secret) for key in keys]

    assert keys[0].id == keys[1].id
    assert derived[0] != derived[1]
    assert repeatable_secret("k1", seed="s", header="1", admin_secret="") not in derived

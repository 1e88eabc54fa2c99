"""Refused admin logins, counted for the audit log."""

import logging

import pytest

from gateway.api.refused_logins import RefusedLogins
from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.ledger.audit import AuditEntry
from tests.gateway.examples import Clock

ENTRY = {
    "time": "2026-11-21T08:00:00.000Z",
    "who": "unknown",
    "role": "none",
    "action": "refuse",
    "kind": "login",
    "id": "admin",
}


class Log:
    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []
        self.is_away = False

    async def note(self, audit: AuditEntry) -> None:
        if self.is_away:
            raise StoreUnavailable("gone")
        self.entries.append(audit)


class Logins:
    def __init__(self) -> None:
        self.clock, self.log = Clock(1_795_248_000.0), Log()
        self.refused = RefusedLogins(self.log, wall_clock=self.clock)  # type: ignore[arg-type]  # only notes

    async def attack(self, requests: int, seconds: int) -> None:
        for second in range(seconds):
            for i in range(requests):
                self.refused.count("wrong key", f"10.0.{second % 256}.{i}")
            await self.refused.settle()
            self.clock.now += 1


async def test_a_refused_login_is_in_the_audit_log() -> None:
    logins = Logins()
    logins.refused.count("wrong key", "192.0.2.7")
    logins.refused.count("no key", "192.0.2.7")
    logins.refused.count("wrong key", None)
    await logins.refused.settle()
    await logins.refused.settle()
    (entry,) = logins.log.entries

    assert ENTRY == {name: getattr(entry, name) for name in ENTRY}
    assert {
        "requests": 3,
        "since": "2026-11-21T08:00:00.000Z",
        "reasons": {"wrong key": 2, "no key": 1},
        "addresses": {"192.0.2.7": 2, "unknown": 1},
    } == entry.after


async def test_an_attack_writes_few_small_entries() -> None:
    """A million requests in ten hours: every one is counted, and the log has twenty entries at most."""
    logins = Logins()
    await logins.attack(28, 36_000)
    logins.clock.now += 7200
    await logins.refused.settle()
    counts = [entry.after["requests"] for entry in logins.log.entries if entry.after is not None]

    assert 28 * 36_000 == sum(counts)
    assert len(counts) <= 20
    assert 8 == max(len(entry.after["addresses"]) for entry in logins.log.entries if entry.after is not None)


async def test_after_a_quiet_time_the_next_one_is_written_soon() -> None:
    logins = Logins()
    await logins.attack(1, 1000)
    logins.clock.now += 7200
    await logins.refused.settle()
    logins.clock.now += 7200
    for _ in range(2):
        logins.refused.count("no key", "192.0.2.7")
        await logins.refused.settle()
        logins.clock.now += 60

    assert 2 == sum(entry.after["addresses"] == {"192.0.2.7": 1} for entry in logins.log.entries if entry.after)


async def test_while_the_store_is_away_they_are_in_the_program_log(caplog: pytest.LogCaptureFixture) -> None:
    logins = Logins()
    logins.log.is_away = True
    logins.refused.count("wrong key", "192.0.2.7")
    with caplog.at_level(logging.WARNING):
        await logins.refused.settle()

    assert "the store is unavailable" in caplog.text

"""Facts about audit log entries for logins."""

import logging
from ipaddress import ip_address

import pytest

from gateway.api.admin_access import AdminKey
from gateway.console import login_records
from gateway.console.login_records import LoginRecords
from gateway.protocol.errors import StoreUnavailable
from gateway.tenancy.ledger.audit import AuditEntry
from tests.gateway.examples import Clock

OWNER = AdminKey("ow", "owner", "s3cret")
OF_BLUE = AdminKey("of-blue", "viewer", "s3cret-too", team="blue")


class Log:
    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []
        self.is_away = False

    async def note(self, audit: AuditEntry) -> None:
        if self.is_away:
            raise StoreUnavailable("gone")
        self.entries.append(audit)


class Recorded:
    def __init__(self) -> None:
        self.clock, self.log = Clock(1_795_248_000.0), Log()
        self.records = LoginRecords(self.log, wall_clock=self.clock)  # type: ignore[arg-type]  # only notes


async def test_an_entry_names_the_key_its_role_its_team_and_the_address() -> None:
    recorded = Recorded()
    await recorded.records.record_login(OF_BLUE, ip_address("192.0.2.7"), "admin key")
    await recorded.records.record_logout(OWNER, None)

    assert [
        AuditEntry(
            time="2026-11-21T08:00:00.000Z",
            who="of-blue",
            role="viewer",
            action="login",
            kind="login",
            id="console",
            team="blue",
            after={"address": "192.0.2.7", "with": "admin key"},
        ),
        AuditEntry(
            time="2026-11-21T08:00:00.000Z",
            who="ow",
            role="owner",
            action="logout",
            kind="login",
            id="console",
            after={"address": "unknown"},
        ),
    ] == recorded.log.entries


async def test_one_key_cannot_fill_the_audit_log() -> None:
    recorded = Recorded()
    for _ in range(1000):
        await recorded.records.record_login(OWNER, None, "admin key")
    await recorded.records.record_login(OF_BLUE, None, "admin key")
    assert {"ow": 60, "of-blue": 1} == {
        who: len([entry for entry in recorded.log.entries if entry.who == who]) for who in ("ow", "of-blue")
    }

    recorded.clock.now += 3600
    await recorded.records.record_logout(OWNER, None)
    await recorded.records.record_logout(OWNER, None)
    assert [{"address": "unknown", "omitted_entries": 940}, {"address": "unknown"}] == [
        entry.after for entry in recorded.log.entries[-2:]
    ]


async def test_a_login_works_while_the_store_is_unavailable(caplog: pytest.LogCaptureFixture) -> None:
    recorded = Recorded()
    recorded.log.is_away = True
    with caplog.at_level(logging.WARNING):
        await recorded.records.record_login(OWNER, None, "admin key")

    assert ["a login is missing from the audit log because the store is unavailable: ow"] == caplog.messages


async def test_the_number_of_counted_people_is_bounded() -> None:
    recorded = Recorded()
    for number in range(login_records.MAX_COUNTED + 5):
        await recorded.records.record_login(AdminKey(f"oidc:okta:{number}", "viewer", ""), None, "identity provider")

    assert login_records.MAX_COUNTED == len(recorded.records._counts)

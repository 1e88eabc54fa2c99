"""Facts about what the routes are made of."""

import logging

import pytest

from gateway.api.admin_access import AdminKey
from gateway.api.admin_v1.parts import Parts
from gateway.tenancy.ledger.audit import AuditEntry
from tests.gateway.api.admin_v1.administration import Administration

ANN = AdminKey("ann", "operator", "s3cret")


def test_an_entry_of_the_audit_log_says_who_and_when(admin: Administration) -> None:
    parts: Parts = admin.api.state.parts
    entry = parts.audit(ANN, "update", "key", "ci", team="blue", before={"digest": "d", "weight": 1.0}, after={})

    assert (
        AuditEntry(
            time="2026-11-21T08:00:00.000Z",
            who="ann",
            role="operator",
            action="update",
            kind="key",
            id="ci",
            team="blue",
            before={"weight": 1.0},
            after={},
        )
        == entry
    )


async def test_what_cannot_be_noted_is_logged(admin: Administration, caplog: pytest.LogCaptureFixture) -> None:
    """The store is away while a worker has to be drained: the draining was right, and must not get lost."""
    parts: Parts = admin.api.state.parts
    entry = parts.audit(ANN, "drain", "worker", "w-1")
    await admin.file.run(lambda connection: connection.execute("DROP TABLE directory_audit"))
    with caplog.at_level(logging.WARNING):
        await parts.note(entry)

    assert "missing from the audit log" in caplog.text
    assert '"who":"ann"' in caplog.text
    assert '"id":"w-1"' in caplog.text

"""Records that decide which tokens are accepted."""

import msgspec
import pytest

from gateway.tenancy.teams.access_records import AccessRecord, Revocation, revocation_name, revocation_of_id

REVOKED = Revocation("okta", "subject", "alice", 5.0, 9.0)


def test_a_revocation_is_found_by_issuer_scope_and_value() -> None:
    assert REVOKED.name == revocation_name("okta", "subject", "alice") == revocation_of_id(REVOKED.id)
    assert 32 == len(REVOKED.id)


@pytest.mark.parametrize(
    ("issuer", "scope", "value"),
    [
        ("entra", "subject", "alice"),
        ("okta", "session", "alice"),
        ("okta", "subject", "Alice"),
        ("okta", "subject", ""),
    ],
)
def test_other_values_have_other_names(issuer: str, scope: str, value: str) -> None:
    assert revocation_name(issuer, scope, value) != REVOKED.name  # type: ignore[arg-type]  # scopes are literals


def test_a_name_is_short_however_long_the_value_is() -> None:
    assert len(REVOKED.name) == len(revocation_name("okta", "subject", "x" * 100_000))


def test_a_row_of_a_later_version_is_read() -> None:
    fields = b'"issuer":"okta","scope":"subject","value":"alice","revoked_at":5.0,"expires_at":9.0,"later":1'
    row = b'{"type":"revocation",' + fields + b"}"

    assert REVOKED == msgspec.json.decode(row, type=AccessRecord)

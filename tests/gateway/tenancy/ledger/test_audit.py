from typing import Any

import msgspec
import pytest

from gateway.settings.teams import KeySettings
from gateway.tenancy.ledger.audit import HIDDEN, AuditEntry, shown
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team

DIGEST = "d" * 64


def test_a_key_is_shown_without_its_digests() -> None:
    key = Key(
        id="ci",
        team="blue",
        digest=DIGEST,
        former_digest=DIGEST,
        former_until=5.0,
        limits=Limits(concurrent=3),
        model_limits={"tiny": Limits(usd_per_day=1.5)},
    )

    assert {
        "id": "ci",
        "team": "blue",
        "former_until": 5.0,
        "limits": {"concurrent": 3},
        "model_limits": {"tiny": {"usd_per_day": 1.5}},
    } == shown(key)


def test_a_team_is_shown_as_it_is() -> None:
    assert {"name": "blue", "models": ["tiny"]} == shown(Team(name="blue", models=("tiny",)))


def test_a_missing_state_is_shown_as_none() -> None:
    assert shown(None) is None


@pytest.mark.parametrize("name", sorted(HIDDEN))
def test_secrets_are_left_out_at_any_depth(name: str) -> None:
    nested: dict[str, Any] = {"keys": [{"id": "ci", name: "wg-secret"}], "inner": {name: {"deep": "wg-secret"}}}

    assert {"keys": [{"id": "ci"}], "inner": {}} == shown(nested)


def test_every_secret_field_of_a_key_is_hidden() -> None:
    """A field that is added and sounds like one has to be named here."""
    names = {*Key.__struct_fields__, *KeySettings.model_fields}
    secret = {name for name in names if any(word in name for word in ("digest", "secret", "pepper", "token"))}

    assert secret <= HIDDEN


def test_an_entry_comes_back_from_its_json() -> None:
    entry = AuditEntry(
        time="2026-11-21T08:00:00.000Z",
        who="root",
        role="owner",
        action="create",
        kind="key",
        id="ci",
        team="blue",
        after={"id": "ci", "limits": {"concurrent": 3}},
    )

    assert entry == msgspec.json.decode(msgspec.json.encode(entry), type=AuditEntry)

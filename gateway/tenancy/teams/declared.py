"""Teams and keys that are managed in the configuration."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.named_rules import NamedRules
from gateway.tenancy.teams.secret import Digester
from gateway.tenancy.teams.team import Team

_NO_RULES: Final = NamedRules()


class TwoKeysOneSecretError(Exception):
    """Raised if config-managed keys have equal secrets. *sentences* contains one sentence for each pair of keys."""

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = list(sentences)


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """Config-managed key that has no digest yet, with the SHA-256 of its secret."""

    key: Key
    sha256: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class DeclaredTeam:
    team: Team
    keys: tuple[DeclaredKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Declared:
    """Teams and keys from the configuration. Neither the admin API nor the commands can change them."""

    teams: Mapping[str, Team] = field(default_factory=dict)
    """Teams from the configuration, by name."""
    keys: Mapping[str, Key] = field(default_factory=dict)
    """Keys from the configuration for all teams, by id."""
    rules: NamedRules = field(default_factory=NamedRules)
    """Limit templates and model groups from the configuration."""


def digested(teams: Iterable[DeclaredTeam], digester: Digester, rules: NamedRules = _NO_RULES) -> Declared:
    """Return *teams* and their keys with the digests of the key secrets, and with *rules*.

    Raises:
        TwoKeysOneSecretError: if two keys have the same secret.
    """
    named: dict[str, Team] = {}
    keys: dict[str, Key] = {}
    owners: dict[str, str] = {}
    faults: list[str] = []
    for declared in teams:
        named[declared.team.name] = declared.team
        for each in declared.keys:
            key = structs.replace(each.key, digest=digester.digest_of(each.sha256))
            keys[key.id] = key
            other = owners.setdefault(key.digest, key.id)
            if other != key.id:
                faults.append(
                    f"teams: the keys {other!r} and {key.id!r} have the same secret. Give each key a different secret."
                )
    if faults:
        raise TwoKeysOneSecretError(faults)
    return Declared(named, keys, rules)

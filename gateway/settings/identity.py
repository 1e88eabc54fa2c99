"""Settings for tokens of identity providers, which callers send in place of API keys."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gateway.protocol.contradictions import Contradiction, repeated
from gateway.protocol.field_names import Place
from gateway.protocol.field_types import EntityName, Group, PriorityName, Url, is_entity_name, rule
from gateway.protocol.worker_address import is_http_address, is_printable_ascii
from gateway.settings.rules import (
    AllowedModels,
    Count,
    FileName,
    NotNegative,
    Positive,
    Secret,
    VariableName,
    unless_contradictory,
)
from gateway.settings.teams import HardLimitSettings, LimitSettings

_LOCAL = re.compile(r"http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?(/.*)?")

_PUBLIC = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?")

LEAST_SCIM_SECRET = 24
"""Minimum number of characters of the token for /scim/v2, which is open to the network."""

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


def _check_issuer(value: str) -> str:
    if not is_http_address(value):
        raise rule("the value must be the https:// address that tokens have in the claim iss")
    return _encrypted(value)


def _check_encrypted(value: str) -> str:
    return _encrypted(value)


def _encrypted(value: str) -> str:
    if not value.startswith("https://") and not _LOCAL.fullmatch(value):
        raise rule("the value must begin with https://, unless the host is this machine")
    return value


def _check_public(value: str) -> str:
    if not _PUBLIC.fullmatch(value):
        raise rule("the value must be an address such as https://gateway.example.com, without a path")
    return _encrypted(value)


def _check_audience(value: str) -> str:
    if not is_printable_ascii(value):
        raise rule("the value must be printable ASCII without spaces")
    return value


def _check_claim(value: str) -> str:
    if not value or not value.isprintable():
        raise rule("the value must be the name of a claim, or a path of names with dots")
    return value


def _check_team(value: str) -> str:
    filled = value.replace("{value}", "a").replace("{rest}", "a")
    if not is_entity_name(filled):
        raise rule("the value must be the name of a team, in which {value} and {rest} stand for parts of the claim")
    return value


def _check_pattern(value: str) -> str:
    if not value or "*" in value[:-1]:
        raise rule("the value must be a text, or a prefix with one '*' at its end")
    return value


Claim = Annotated[str, AfterValidator(_check_claim)]
IssuerUrl = Annotated[str, AfterValidator(_check_issuer)]
PublicUrl = Annotated[str, AfterValidator(_check_public)]
EncryptedUrl = Annotated[Url, AfterValidator(_check_encrypted)]
Audience = Annotated[str, AfterValidator(_check_audience)]
TeamText = Annotated[str, AfterValidator(_check_team)]
ClaimPattern = Annotated[str, AfterValidator(_check_pattern)]


class TeamTemplateSettings(Group):
    """Properties of teams that are created for tokens."""

    weight: Positive = Field(default=1, description="weight of a created team, as teams[].weight")
    priority: PriorityName = Field(default="normal", description="priority of a created team, as teams[].priority")
    models: AllowedModels | None = Field(default=None, description="models of a created team, as teams[].models")
    fallback: bool = Field(default=True, description="whether fallbacks can answer requests of a created team")
    isolated_cache: bool = Field(
        default=False, description="whether the cached prefixes of a created team are kept separate from other teams"
    )
    limits: LimitSettings = Field(default=LimitSettings(), description="limits of a created team")
    limit_template: EntityName | None = Field(
        default=None, description="limit template of a created team, as teams[].limit_template"
    )
    model_limits: dict[str, LimitSettings] = Field(
        default={}, description="limits of a created team for individual models, by model name"
    )
    user_limits: HardLimitSettings = Field(
        default=HardLimitSettings(), description="limits of each end user of a created team"
    )
    session_limits: HardLimitSettings = Field(
        default=HardLimitSettings(), description="limits of each session of a created team"
    )


class TeamRuleSettings(Group):
    claim: Claim = Field(
        default="groups",
        description="claim to compare: its name, or a path of names with dots such as realm_access.roles",
    )
    value: ClaimPattern = Field(
        description="value of the claim, or of one item of a list. A * at the end stands for any ending."
    )
    team: TeamText = Field(
        description="team of matching tokens. {value} stands for the matched value of the claim, and {rest} for the "
        "part of it for which * stands."
    )
    project: EntityName | None = Field(
        default=None, description="tag under which the usage of matching tokens is reported separately"
    )
    models: AllowedModels | None = Field(
        default=None,
        description="models that matching tokens are allowed to use, among the models of the team. Null means all "
        "models of the team.",
    )
    priority: PriorityName | None = Field(
        default=None, description="priority of requests with matching tokens. Null means the team's priority."
    )
    create_team: TeamTemplateSettings | None = Field(
        default=None,
        description="properties with which a missing team is created. Null means that requests of a missing team "
        "are refused.",
    )


class RoleRuleSettings(Group):
    claim: Claim = Field(default="groups", description="claim to compare, as in rules[].claim")
    value: ClaimPattern = Field(description="value of the claim, as in rules[].value")
    role: Literal["viewer", "operator", "owner"] = Field(
        description="role of matching tokens in the admin API and in the console, as admin.keys[].role"
    )
    team: TeamText | None = Field(
        default=None,
        description="team to which the role viewer or owner is limited, as admin.keys[].team. {value} and {rest} have "
        "the same meaning as in rules[].team. Null means that the role is not limited to a team.",
    )


class ScimSettings(Group):
    """Provisioning of people and groups by an identity provider."""

    secret: Secret | None = Field(
        default=None, description="token that the identity provider sends to /scim/v2, of at least 24 characters"
    )
    secret_env: VariableName | None = Field(default=None, description="environment variable that holds the token")
    user_claim: Claim = Field(
        default="sub", description="claim of tokens that identifies a provisioned user, compared with attribute"
    )
    attribute: Literal["userName", "externalId"] = Field(
        default="userName", description="attribute of provisioned users to which user_claim is compared"
    )
    unknown_users: Literal["refuse", "allow"] = Field(
        default="refuse",
        description="what happens to tokens of users that are not provisioned: refuse, or allow, with the rules of the "
        "issuer. Deactivated users are always refused.",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if self.secret is None and self.secret_env is None:
            found.append(Contradiction(("secret",), "is required. Set secret or secret_env"))
        if self.secret is not None and len(self.secret.get_secret_value()) < LEAST_SCIM_SECRET:
            found.append(Contradiction(("secret",), f"is shorter than {LEAST_SCIM_SECRET} characters"))
        return unless_contradictory(self, found)


class ConsoleLoginSettings(Group):
    """Login of people to the console with an issuer of tokens."""

    client_id: Audience = Field(description="client id of the console at the issuer")
    secret: Secret | None = Field(
        default=None, description="secret of the client. Null, without secret_env, means a public client."
    )
    secret_env: VariableName | None = Field(
        default=None, description="environment variable that holds the secret of the client"
    )
    public_url: PublicUrl = Field(
        description="address of the console as browsers reach it, without a path, e.g. https://gateway.example.com. "
        "Register the address with /console/login/callback at the issuer for logins, and the address with "
        "/console/login for logouts. console.allowed_hosts need not contain its host."
    )
    scopes: Annotated[tuple[Audience, ...], Field(strict=False)] = Field(
        default=("openid", "profile"),
        description="scopes to request, among them openid. The ID token must contain the claims that admin_roles name.",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if "openid" in self.scopes:
            return self
        return unless_contradictory(self, [Contradiction(("scopes",), "must contain openid")])


def _faults_of_roles(rules: Sequence[RoleRuleSettings]) -> list[Contradiction]:
    found = []
    for i, each in enumerate(rules):
        place: Place = ("admin_roles", i, "team")
        if each.team is not None and each.role == "operator":
            text = "needs the role viewer or owner, but the role is 'operator'. Change the role, or remove team"
            found.append(Contradiction(place, text))
        if each.team is not None and "{rest}" in each.team and not each.value.endswith("*"):
            found.append(Contradiction(place, "contains {rest}, but value has no * at its end"))
    return found


class IssuerSettings(Group):
    name: EntityName = Field(
        description="name of the issuer in logs, and in the ledger as the key id oidc:NAME of its requests"
    )
    issuer: IssuerUrl = Field(
        description="exact value of the claim iss in the tokens of the issuer, e.g. https://login.example.com/realms/ai"
    )
    audiences: Annotated[tuple[Audience, ...], Field(strict=False, min_length=1)] = Field(
        description="accepted values of the claim aud, usually the client id of the gateway at the issuer"
    )
    jwks_url: EncryptedUrl | None = Field(
        default=None,
        description="address of the issuer's JSON Web Key Set. Null means the address that the document "
        "/.well-known/openid-configuration of the issuer names.",
    )
    ca_file: FileName | None = Field(
        default=None,
        description="file with the certificates that sign the certificate of the issuer. Null means the usual "
        "certificate authorities.",
    )
    token_file: FileName | None = Field(
        default=None,
        description="file with a token that the gateway sends when it reads the keys, which the API server of "
        "Kubernetes requires. Null means no token.",
    )
    algorithms: Annotated[tuple[Algorithm, ...], Field(strict=False, min_length=1)] = Field(
        default=("RS256", "PS256", "ES256", "EdDSA"), description="accepted signature algorithms"
    )
    leeway_s: NotNegative = Field(
        default=30, le=300, description="accepted difference in seconds between the clocks of issuer and gateway"
    )
    max_lifetime_s: Positive | None = Field(
        default=None, description="maximum lifetime of a token in seconds (claims iat and exp). Null means no maximum."
    )
    user_claim: Claim = Field(
        default="sub", description="claim with the end user, who appears in the ledger and in the request log"
    )
    refresh_s: Positive = Field(default=300, description="seconds after which the issuer's keys are read again")
    stale_s: Positive = Field(
        default=86_400, description="seconds for which keys stay valid if the issuer's keys cannot be read again"
    )
    rules: Annotated[tuple[TeamRuleSettings, ...], Field(strict=False, min_length=1)] = Field(
        description="rules that find the team of a token. The first matching rule applies."
    )
    admin_roles: Annotated[tuple[RoleRuleSettings, ...], Field(strict=False)] = Field(
        default=(),
        description="rules that give tokens a role in the admin API and in the console. The first matching rule "
        "applies, and a token that no rule matches has no role. Needs at least one admin key in admin.keys, which "
        "works while the issuer is unavailable.",
    )
    console: ConsoleLoginSettings | None = Field(
        default=None,
        description="login of people to the console with this issuer. Null means no such login.",
    )
    scim: ScimSettings | None = Field(
        default=None,
        description="provisioning of users and groups by the identity provider under /scim/v2 (SCIM 2.0). Rules can "
        "use the names of the groups as the claim scim_groups. Null disables it.",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if self.stale_s < self.refresh_s:
            text = "is shorter than refresh_s, so keys would become invalid before they are read again"
            found.append(Contradiction(("stale_s",), text))
        found.extend(
            Contradiction(("rules", i, "team"), "contains {rest}, but value has no * at its end")
            for i, each in enumerate(self.rules)
            if "{rest}" in each.team and not each.value.endswith("*")
        )
        found.extend(_faults_of_roles(self.admin_roles))
        if self.console is not None and not self.admin_roles:
            found.append(Contradiction(("console",), "needs rules for the roles of people. Configure admin_roles"))
        return unless_contradictory(self, found)


class IdentitySettings(Group):
    issuers: Annotated[tuple[IssuerSettings, ...], Field(strict=False)] = Field(
        default=(), description="issuers of tokens that callers can send in place of an API key"
    )
    max_teams: Count = Field(
        default=1000, description="number of teams at which no more teams are created for tokens (create_team)"
    )


def faults_of_issuers(issuers: Sequence[IssuerSettings], *, has_admin_keys: bool) -> list[Contradiction]:
    """Return the contradictions between several *issuers*, and between an issuer and other settings."""
    found = repeated([(("identity", "issuers", i, "name"), each.name) for i, each in enumerate(issuers)])
    found += repeated([(("identity", "issuers", i, "issuer"), each.issuer) for i, each in enumerate(issuers)])
    found += _repeated_scim_secrets(issuers)
    text = "need an admin key, which works while the issuer is unavailable. Configure admin.keys"
    return found + [
        Contradiction(("identity", "issuers", i, "admin_roles"), text)
        for i, each in enumerate(issuers)
        if each.admin_roles and not has_admin_keys
    ]


def _repeated_scim_secrets(issuers: Sequence[IssuerSettings]) -> list[Contradiction]:
    """Return one contradiction for each SCIM token that an earlier issuer has, without the token."""
    known: set[str] = set()
    found: list[Contradiction] = []
    for i, each in enumerate(issuers):
        secret = None if each.scim is None or each.scim.secret is None else each.scim.secret.get_secret_value()
        if secret is not None and secret in known:
            place: Place = ("identity", "issuers", i, "scim", "secret")
            found.append(Contradiction(place, "is the token of another issuer. Give each issuer its own token"))
        known |= set() if secret is None else {secret}
    return found

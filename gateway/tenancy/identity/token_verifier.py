"""Verification of JSON Web Tokens (RFC 7519) from configured issuers.

The gateway checks all that costs little before the signature, and nothing in a token is used before the signature is
valid, except to find the issuer and the key. Headers of a token that name other keys (``jku``, ``jwk``, ``x5u``,
``x5c``) are ignored.
"""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from gateway.protocol.errors import DECODE_ERRORS, Forbidden, InvalidKey
from gateway.tenancy.identity.claims import values_at
from gateway.tenancy.identity.issuer import Issuer
from gateway.tenancy.identity.provisioned import GROUPS_CLAIM, ProvisionedPeople, Standing, check_standing
from gateway.tenancy.identity.public_keys import BadSignatureError, signed_payload
from gateway.tenancy.identity.signing_keys import SigningKeys
from gateway.tenancy.identity.team_rule import TeamGrant, team_grant
from gateway.tenancy.teams.access_records import RevokedScope, revocation_name

MOST_BYTES: Final = 16_384
"""Maximum length of a token. Microsoft Entra's tokens with 200 groups have about 10,000 bytes."""
MOST_USER: Final = 256
"""Maximum number of characters of an end user."""
TOKEN_ID_CLAIMS: Final[tuple[Literal["jti", "uti"], ...]] = ("jti", "uti")
"""Claims that identify one token. Microsoft Entra has the claim ``uti`` in place of ``jti``."""
_LATEST: Final = 2.0**53
"""Latest accepted time in a token, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    issuer: str
    """Name of the issuer."""
    user: str | None
    """End user, or None if the token names none."""
    grant: TeamGrant
    expires_at: float
    """Time at which the token is no longer accepted, in seconds since 1970."""
    issued_at: float = 0.0
    """Earliest time at which the token can have been issued, by the clock of the gateway, or 0 if it is not known."""
    revocations: tuple[str, ...] = ()
    """Row names of all revocations that can concern the token (`revocation_name`)."""
    person: str | None = None
    """Value of the claim that identifies the provisioned person, or None if the issuer provisions no people."""
    standing: Standing | None = None
    """Standing of the person when the token was verified, or None if the person was not provisioned."""


@dataclass(frozen=True, slots=True)
class VerifiedClaims:
    """Content of a verified token, before any rule has been applied. The fields are those of `VerifiedToken`."""

    issuer: Issuer
    values: Mapping[str, Any] = field(repr=False)
    """All claims, with the groups of a provisioned person."""
    user: str | None
    expires_at: float
    issued_at: float
    revocations: tuple[str, ...]
    person: str | None
    standing: Standing | None


class _Header(msgspec.Struct):
    alg: str
    kid: str | None = None
    cty: str | None = None
    crit: Any = msgspec.UNSET
    b64: Any = msgspec.UNSET


class _Claims(msgspec.Struct):
    iss: str
    aud: str | list[str]
    exp: float
    nbf: float | None = None
    iat: float | None = None


class TokenVerifier:
    """Verifier of the tokens of *issuers*, each with its keys. *wall_clock* returns seconds since 1970."""

    def __init__(
        self,
        issuers: Sequence[tuple[Issuer, SigningKeys]],
        *,
        wall_clock: Callable[[], float],
        provisioned: ProvisionedPeople | None = None,
    ) -> None:
        """Create the verifier. *provisioned* is required if an issuer provisions people."""
        self._issuers = {issuer.url: (issuer, keys) for issuer, keys in issuers}
        self._provisioned = provisioned
        self._wall_clock = wall_clock

    async def verify(self, token: str) -> VerifiedToken:
        """Verify *token* and return its content. Takes about 100 us, and one request if the signing key is unknown.

        Raises:
            InvalidKey: if the token is malformed, expired, or not from a configured issuer for this gateway.
            Forbidden: ``no_team`` if no rule gives the token a team, or ``user_not_provisioned`` if its person must be
                provisioned and is not.
            IssuerUnavailable: if the signing key is unknown, and the keys of the issuer cannot be read.
        """
        verified = await self.verify_claims(token)
        issuer = verified.issuer
        grant = team_grant(issuer.rules, verified.values)
        if grant is None:
            text = f"The token is valid, but no rule for the issuer {issuer.name!r} gives the token a team"
            raise Forbidden(text, code="no_team")
        return VerifiedToken(
            issuer.name,
            verified.user,
            grant,
            verified.expires_at,
            verified.issued_at,
            verified.revocations,
            verified.person,
            verified.standing,
        )

    async def verify_claims(self, token: str) -> VerifiedClaims:
        """Verify *token* and return its claims, to which no rule has been applied. Raises the errors of `verify`."""
        header, claims = _parts(token)
        found = self._issuers.get(claims.iss)
        if found is None:
            raise InvalidKey("The issuer of the token is not known")
        issuer, keys = found
        expires_at = self._check(header, claims, issuer)
        key = await keys.find(header.kid, header.alg)
        if key is None:
            raise InvalidKey("The token names a signing key that its issuer does not have")
        try:
            payload = signed_payload(token, key, header.alg)
        except BadSignatureError:
            raise InvalidKey("The signature of the token is not valid") from None
        values = msgspec.json.decode(payload, type=dict[str, Any])
        person, standing = self._standing(issuer, values)
        user = _user(values, issuer.user_claim)
        issued_at = max(0.0, (claims.iat or 0.0) - issuer.leeway_s)
        revocations = _revocations(issuer, values, user)
        return VerifiedClaims(issuer, values, user, expires_at, issued_at, revocations, person, standing)

    def _standing(self, issuer: Issuer, values: dict[str, Any]) -> tuple[str | None, Standing | None]:
        """Return the person in the claims *values*, with the standing. Add the groups of the person to *values*.

        Raises:
            InvalidKey: if the person is deactivated.
            Forbidden: ``user_not_provisioned`` if the person is not provisioned and must be.
        """
        if issuer.provisioning is None or self._provisioned is None:
            return None, None
        found = values_at(values, issuer.provisioning.claim)
        person = found[0] if found else ""
        standing = self._provisioned.standing(issuer.name, person)
        check_standing(standing, issuer.provisioning)
        values[GROUPS_CLAIM] = [] if standing is None else list(standing.groups)
        return person, standing

    def _check(self, header: _Header, claims: _Claims, issuer: Issuer) -> float:
        """Return the time at which the token expires, or raise an error if the token cannot be valid."""
        if header.alg not in issuer.algorithms:
            raise InvalidKey("The signature algorithm of the token is not accepted")
        if header.crit is not msgspec.UNSET or header.b64 is not msgspec.UNSET or (header.cty or "").upper() == "JWT":
            raise InvalidKey("The token uses extensions that are not supported")
        named = {claims.aud} if isinstance(claims.aud, str) else set(claims.aud)
        if issuer.audiences.isdisjoint(named):
            raise InvalidKey("The token was issued for another audience")
        now, leeway_s = self._wall_clock(), issuer.leeway_s
        times = [each for each in (claims.exp, claims.nbf, claims.iat) if each is not None]
        if not all(0.0 <= each <= _LATEST for each in times):
            raise InvalidKey("A time in the token is not valid")
        if now >= claims.exp + leeway_s:
            raise InvalidKey("The token has expired")
        if (claims.nbf or 0.0) > now + leeway_s or (claims.iat or 0.0) > now + leeway_s:
            raise InvalidKey("The token is not valid yet")
        if issuer.max_lifetime_s is not None and (
            claims.iat is None or claims.exp - claims.iat > issuer.max_lifetime_s
        ):
            raise InvalidKey("The lifetime of the token is longer than accepted")
        return claims.exp + leeway_s


def _parts(token: str) -> tuple[_Header, _Claims]:
    """Return the header and the claims of *token*, which are not verified yet.

    Raises:
        InvalidKey: if *token* is not a signed JSON Web Token with the required claims.
    """
    parts = token.split(".")
    if len(token) > MOST_BYTES or len(parts) != 3:
        raise InvalidKey("The token is not a signed JSON Web Token")
    try:
        return (
            msgspec.json.decode(_decoded(parts[0]), type=_Header),
            msgspec.json.decode(_decoded(parts[1]), type=_Claims),
        )
    except (*DECODE_ERRORS, binascii.Error, ValueError):
        raise InvalidKey("The token is not a JSON Web Token with the claims iss, aud and exp") from None


def _decoded(part: str) -> bytes:
    return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)


def _revocations(issuer: Issuer, claims: Mapping[str, object], user: str | None) -> tuple[str, ...]:
    """Return the row names of all revocations that can concern a token with *claims*."""
    named: list[tuple[RevokedScope, object]] = [
        *(("token", claims.get(name)) for name in TOKEN_ID_CLAIMS),
        ("session", claims.get("sid")),
        ("subject", claims.get("sub")),
        ("subject", user),
    ]
    names = (revocation_name(issuer.name, scope, value) for scope, value in named if isinstance(value, str))
    return tuple(dict.fromkeys(names))


def _user(claims: Mapping[str, object], path: str) -> str | None:
    values = values_at(claims, path)
    return values[0][:MOST_USER] if values and values[0].isprintable() else None

"""Public keys of an issuer in a JSON Web Key Set (RFC 7517), and signatures that they verify (RFC 7515).

Only asymmetric algorithms exist here, so a token cannot be signed with a public key as the secret of an HMAC.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AnyPublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

MOST_KEYS: Final = 100
LEAST_RSA_BITS: Final = 2048
"""Minimum length of an RSA key, according to RFC 7518, section 3.3."""
MOST_RSA_BITS: Final = 8192
"""Maximum length of an RSA key. The time to verify a signature grows with the square of the length."""

_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
ALGORITHMS: Final = (*sorted(_RSA), *sorted(_CURVES.values()), "EdDSA")
"""Names of all supported signature algorithms, as in RFC 7518 and RFC 8037."""


class BadKeySetError(Exception):
    """Raised if a document is not a JSON Web Key Set."""


class BadSignatureError(Exception):
    """Raised if a signature does not belong to the token and the key."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    key_id: str | None
    algorithms: frozenset[str]
    """Algorithms for which the issuer uses the key."""
    key: AnyPublicKey = field(repr=False)


def public_keys(document: bytes) -> tuple[PublicKey, ...]:
    """Return the keys in *document* that verify signatures. Keys for other purposes and of other kinds are omitted.

    Raises:
        BadKeySetError: if *document* is not a JSON object with a list of keys.
    """
    try:
        keys = msgspec.json.decode(document, type=_KeySet).keys
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadKeySetError("the document is not a JSON Web Key Set") from None
    found = (_public_key(each) for each in keys[:MOST_KEYS])
    return tuple(key for key in found if key is not None)


def signed_payload(token: str, key: PublicKey, algorithm: str) -> bytes:
    """Return the payload of *token*, whose signature was made with *key* and *algorithm*. Takes about 40 us for RSA.

    Raises:
        BadSignatureError: if the signature is not valid, or *key* is not used for *algorithm*.
    """
    if algorithm not in key.algorithms:
        raise BadSignatureError("the key is not used for this algorithm")
    try:
        return jwt.PyJWS(algorithms=[algorithm]).decode_complete(token, key.key, algorithms=[algorithm])["payload"]  # type: ignore[no-any-return]
    except (jwt.PyJWTError, ValueError, TypeError):
        raise BadSignatureError("the signature is not valid") from None


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


def _public_key(fields: Mapping[str, Any]) -> PublicKey | None:
    if fields.get("use", "sig") != "sig" or "d" in fields:  # a private key that was published is not to be trusted
        return None
    operations = fields.get("key_ops")
    if isinstance(operations, list) and "verify" not in operations:
        return None
    try:
        made = _key_of(fields)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if made is None:
        return None
    key, algorithms = made
    key_id, only = fields.get("kid"), fields.get("alg")
    if only is not None:
        algorithms &= {only} if isinstance(only, str) else frozenset()
    return PublicKey(key_id if isinstance(key_id, str) else None, algorithms, key)


def _key_of(fields: Mapping[str, Any]) -> tuple[AnyPublicKey, frozenset[str]] | None:
    kind, data = fields.get("kty"), dict(fields)
    if kind == "RSA":
        rsa = RSAAlgorithm.from_jwk(data)
        fits = isinstance(rsa, RSAPublicKey) and LEAST_RSA_BITS <= rsa.key_size <= MOST_RSA_BITS
        return (rsa, _RSA) if isinstance(rsa, RSAPublicKey) and fits else None
    if kind == "EC" and fields.get("crv") in _CURVES:
        curve = ECAlgorithm.from_jwk(data)
        return (curve, frozenset({_CURVES[fields["crv"]]})) if isinstance(curve, EllipticCurvePublicKey) else None
    if kind == "OKP" and fields.get("crv") == "Ed25519":
        edwards = OKPAlgorithm.from_jwk(data)
        return (edwards, frozenset({"EdDSA"})) if isinstance(edwards, Ed25519PublicKey) else None
    return None

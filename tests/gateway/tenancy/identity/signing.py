"""An issuer with keys of its own, for tests: key sets and signed tokens."""

import base64
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER = "https://login.example.com/realms/ai"
AUDIENCE = "warmgate"
NOW = 1_763_700_000.0
"""Seconds since 1970: 2025-11-21, 04:40 UTC."""
CLAIMS: Mapping[str, Any] = {
    "iss": ISSUER,
    "aud": AUDIENCE,
    "sub": "alice",
    "iat": NOW - 10,
    "exp": NOW + 300,
    "groups": ["ml-research"],
}

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | Ed25519PrivateKey


@cache
def curve_key(name: str = "first") -> ec.EllipticCurvePrivateKey:
    """A key of the curve P-256, the same for the same *name*."""
    return ec.generate_private_key(ec.SECP256R1())


@cache
def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@cache
def edwards_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def jwk(key: PrivateKey, key_id: str | None = "k1", **fields: Any) -> dict[str, Any]:
    """The public half of *key* as a JSON Web Key."""
    if isinstance(key, rsa.RSAPrivateKey):
        made = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    elif isinstance(key, Ed25519PrivateKey):
        made = OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        made = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    named = {} if key_id is None else {"kid": key_id}
    return {
        name: value for name, value in {**made, **named, **fields}.items() if name != "key_ops" or "key_ops" in fields
    }


def key_set(*keys: Mapping[str, Any]) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()


def token(
    key: PrivateKey | None = None, *, algorithm: str = "ES256", head: Mapping[str, Any] | None = None, **claims: Any
) -> str:
    """A token of the issuer. A claim with the value None is left out, and so is a header."""
    headers = {"kid": "k1", **(head or {})}
    return raw_token({"typ": "JWT", "alg": algorithm, **headers}, {**CLAIMS, **claims}, key or curve_key(), algorithm)


def raw_token(
    header: Mapping[str, Any], claims: Mapping[str, Any] | bytes, key: Any, algorithm: str | None = None
) -> str:
    """A token with exactly these parts. The signature is valid if *key* and *algorithm* fit."""
    said = {name: value for name, value in header.items() if value is not None}
    body = (
        claims if isinstance(claims, bytes) else json.dumps({k: v for k, v in claims.items() if v is not None}).encode()
    )
    signed = f"{encoded(json.dumps(said).encode())}.{encoded(body)}"
    return f"{signed}.{encoded(signature(signed.encode(), key, algorithm or str(header.get('alg'))))}"


def signature(signed: bytes, key: Any, algorithm: str) -> bytes:
    if key is None:
        return b""
    if isinstance(key, rsa.RSAPrivateKey) and algorithm == "RS1":
        return key.sign(signed, padding.PKCS1v15(), hashes.SHA1())
    return jwt.get_algorithm_by_name(algorithm).sign(signed, key)


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from gateway.tenancy.identity.public_keys import (
    MOST_KEYS,
    BadKeySetError,
    BadSignatureError,
    public_keys,
    signed_payload,
)
from tests.gateway.tenancy.identity.signing import (
    CLAIMS,
    PrivateKey,
    curve_key,
    edwards_key,
    jwk,
    key_set,
    rsa_key,
    token,
)

SECRET = {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "kid": "k1"}


@pytest.mark.parametrize(
    ("key", "algorithms"),
    [
        (curve_key(), {"ES256"}),
        (ec.generate_private_key(ec.SECP384R1()), {"ES384"}),
        (ec.generate_private_key(ec.SECP521R1()), {"ES512"}),
        (edwards_key(), {"EdDSA"}),
        (rsa_key(), {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    ],
)
def test_a_key_verifies_the_signatures_of_its_algorithms(key: PrivateKey, algorithms: set[str]) -> None:
    (public,) = public_keys(key_set(jwk(key)))

    assert "k1" == public.key_id
    assert algorithms == public.algorithms
    for algorithm in algorithms:
        payload = signed_payload(token(key, algorithm=algorithm), public, algorithm)
        assert dict(CLAIMS) == json.loads(payload)


def test_a_key_that_names_its_algorithm_serves_no_other() -> None:
    (public,) = public_keys(key_set(jwk(rsa_key(), alg="RS256")))

    assert {"RS256"} == public.algorithms
    with pytest.raises(BadSignatureError, match="not used for this algorithm"):
        signed_payload(token(rsa_key(), algorithm="PS256"), public, "PS256")


def test_a_signature_of_another_key_is_not_valid() -> None:
    (public,) = public_keys(key_set(jwk(curve_key())))

    with pytest.raises(BadSignatureError, match="the signature is not valid"):
        signed_payload(token(curve_key("other")), public, "ES256")


@pytest.mark.parametrize(
    "left_out",
    [
        SECRET,
        jwk(rsa_key(1024)),
        jwk(curve_key(), use="enc"),
        jwk(curve_key(), key_ops=["encrypt"]),
        {**jwk(curve_key()), "d": "c2VjcmV0"},
        {**jwk(curve_key()), "crv": "secp256k1"},
        {**jwk(curve_key()), "x": "AA"},
        {**jwk(curve_key()), "x": 7},
        {"kty": "EC", "crv": "P-256"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {"kty": "OKP", "crv": "X25519", "x": "AAAA"},
        {"kty": "unknown"},
        {},
    ],
)
def test_keys_that_verify_no_signatures_are_left_out(left_out: dict[str, Any]) -> None:
    found = public_keys(key_set(left_out, jwk(curve_key(), "good", key_ops=["verify"], use="sig")))

    assert ["good"] == [key.key_id for key in found]


def test_a_key_with_an_algorithm_of_another_kind_serves_none() -> None:
    (public,) = public_keys(key_set(jwk(rsa_key(), alg="HS256")))

    assert set() == public.algorithms


def test_a_key_without_an_id_has_none() -> None:
    assert [None, None] == [key.key_id for key in public_keys(key_set(jwk(curve_key(), None), jwk(rsa_key(), kid=7)))]


def test_of_many_keys_the_first_hundred_count() -> None:
    assert 100 == MOST_KEYS == len(public_keys(key_set(*[jwk(curve_key())] * 150)))


@pytest.mark.parametrize(
    "document", [b"", b"[]", b"{}", b'{"keys": 7}', b'{"keys": [7]}', b"\xff", b"[" * 5000, b"<html>"]
)
def test_another_document_is_no_key_set(document: bytes) -> None:
    with pytest.raises(BadKeySetError, match="not a JSON Web Key Set"):
        public_keys(document)


def test_a_key_does_not_show_itself() -> None:
    assert "key=" not in repr(public_keys(key_set(jwk(curve_key())))[0])

"""Tokens of a real OpenID provider in place of API keys: rotation of keys, outages, clocks that differ, forgeries."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm

from tests.identity.conftest import LEEWAY_S, Gateway
from tests.identity.provider import AUDIENCE, Provider, private_key

SERVED = (200, None)
REFUSED = (401, "invalid_api_key")
UNAVAILABLE = (503, "issuer_unavailable")
WAIT_S = 60.0
TWO_ALGORITHMS = b'{"alg":"RS256","alg":"none"}'


def awaited(gateway: Gateway, token: str, outcome: tuple[int, str | None]) -> tuple[int, str | None]:
    """Ask with *token* until it has *outcome*, and return the last outcome. The gateway reads keys every second."""
    ends = time.monotonic() + WAIT_S
    while (found := gateway.outcome(token)) != outcome and time.monotonic() < ends:
        time.sleep(0.1)
    return found


def test_a_token_of_the_provider_serves_as_an_api_key(gateway: Gateway, provider: Provider) -> None:
    token = provider.service_token()

    assert SERVED == gateway.outcome(token)
    assert "batch" in [team["name"] for team in gateway.admin("GET", "teams").json()["data"]]


def test_after_a_rotation_new_tokens_pass_and_tokens_of_the_removed_key_that_were_never_seen_do_not(
    gateway: Gateway, provider: Provider
) -> None:
    seen, unseen = provider.service_token(), provider.service_token()
    assert SERVED == gateway.outcome(seen)
    provider.rotate("second")
    fresh = provider.service_token()

    assert "first" == jwt.get_unverified_header(seen)["kid"]
    assert "second" == jwt.get_unverified_header(fresh)["kid"]
    assert SERVED == awaited(gateway, fresh, SERVED)
    assert SERVED == gateway.outcome(seen)
    assert REFUSED == gateway.outcome(unseen)


def test_while_the_provider_is_down_known_tokens_pass_and_unknown_keys_get_503(
    gateway: Gateway, provider: Provider
) -> None:
    known, of_known_key = provider.service_token(), provider.service_token()
    assert SERVED == gateway.outcome(known)
    provider.stop()
    next_key = private_key("next")
    claims = jwt.decode(known, options={"verify_signature": False})
    unknown = signed_with(next_key, claims, {**jwt.get_unverified_header(known), "kid": "next"})

    assert UNAVAILABLE == awaited(gateway, unknown, UNAVAILABLE)
    assert SERVED == gateway.outcome(known)
    assert SERVED == gateway.outcome(of_known_key)

    provider.keys = [next_key]
    provider.start()
    assert SERVED == awaited(gateway, unknown, SERVED)
    assert SERVED == gateway.outcome(known)


def test_after_a_logout_the_tokens_of_the_session_are_refused_and_those_of_the_next_session_pass(
    gateway: Gateway, provider: Provider
) -> None:
    first, other = provider.device_token("alice"), provider.device_token("bob")
    session = jwt.decode(first, options={"verify_signature": False})["sid"]
    assert [SERVED, SERVED] == [gateway.outcome(first), gateway.outcome(other)]
    body = {"issuer": "provider", "scope": "session", "value": session}
    revoked = gateway.admin("POST", "revocations", json=body)

    assert 201 == revoked.status_code
    assert REFUSED == gateway.outcome(first)
    assert SERVED == gateway.outcome(other)
    assert SERVED == gateway.outcome(provider.device_token("alice"))


@pytest.mark.parametrize(
    ("clock_ahead_s", "outcome"),
    [
        (LEEWAY_S - 120, SERVED),
        (-(600 + LEEWAY_S - 120), SERVED),
        (LEEWAY_S + 120, REFUSED),
        (-(600 + LEEWAY_S + 1), REFUSED),
    ],
)
def test_the_clock_of_the_provider_can_differ_by_the_leeway(
    gateway: Gateway, provider: Provider, clock_ahead_s: float, outcome: tuple[int, str]
) -> None:
    provider.stop()
    provider.start(clock_ahead_s=clock_ahead_s)

    assert outcome == gateway.outcome(provider.service_token())


def test_tokens_that_are_forged_from_a_real_one_are_refused(gateway: Gateway, provider: Provider) -> None:
    token = provider.service_token()
    outcomes = {name: gateway.outcome(forged) for name, forged in forgeries(token, provider)}

    assert 60 <= len(outcomes)
    assert {} == {name: outcome for name, outcome in outcomes.items() if outcome != REFUSED}
    assert SERVED == gateway.outcome(token)


def forgeries(token: str, provider: Provider) -> Iterator[tuple[str, str]]:
    """Yield tokens that the provider did not issue, with the name of the attack."""
    header, claims = jwt.get_unverified_header(token), jwt.decode(token, options={"verify_signature": False})
    head, body, sign = token.split(".")
    public = RSAAlgorithm.from_jwk({k: v for k, v in provider.keys[0].items() if k in {"kty", "n", "e"}})
    assert isinstance(public, RSAPublicKey)
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    own = private_key(header["kid"])
    own_public = {name: own[name] for name in ("kty", "n", "e", "kid", "use", "alg")}

    for alg in ("none", "None", "NONE", "nOnE", "", "RS1", "RS", "HS1"):
        yield f"alg {alg!r} without signature", f"{part({**header, 'alg': alg})}.{body}."
        yield f"alg {alg!r} with the signature", f"{part({**header, 'alg': alg})}.{body}.{sign}"
    n = provider.keys[0]["n"].encode()
    for alg, digest in (("HS256", hashlib.sha256), ("HS384", hashlib.sha384), ("HS512", hashlib.sha512)):
        for name, secret in (("pem", pem), ("modulus", n), ("empty", b""), ("kid", header["kid"].encode())):
            signed = f"{part({**header, 'alg': alg})}.{body}"
            made = base64.urlsafe_b64encode(hmac.new(secret, signed.encode(), digest).digest()).rstrip(b"=").decode()
            yield f"{alg} with {name}", f"{signed}.{made}"
    headers: dict[str, dict[str, Any]] = {
        "own key": {},
        "no kid": {"kid": None},
        "unknown kid": {"kid": "other"},
        "jwk": {"jwk": own_public},
        "jku": {"jku": "http://127.0.0.1:9/keys"},
        "x5u": {"x5u": "http://127.0.0.1:9/cert"},
        "x5c": {"x5c": ["MIIB"]},
        "kid as path": {"kid": "../../dev/null"},
        "kid as query": {"kid": "' UNION SELECT 'x"},
        "crit": {"crit": ["exp"]},
        "b64": {"b64": False},
        "nested": {"cty": "JWT"},
    }
    for name, change in headers.items():
        yield f"signed by another: {name}", signed_with(own, claims, {**header, "kid": own["kid"], **change})
    bodies: dict[str, dict[str, Any]] = {
        "group": {"groups": ["llm-admins"]},
        "sub": {"sub": "olga"},
        "aud": {"aud": "another"},
        "later exp": {"exp": claims["exp"] + 86_400},
        "no exp": {"exp": None},
        "no aud": {"aud": None},
        "iss": {"iss": "http://127.0.0.1:9"},
        "exp as text": {"exp": "9999999999"},
        "huge exp": {"exp": 1e300},
        "issuer with a slash": {"iss": claims["iss"] + "/"},
        "aud as object": {"aud": {AUDIENCE: True}},
        "jti": {"jti": "another"},
    }
    for name, changed in bodies.items():
        said = {k: v for k, v in {**claims, **changed}.items() if v is not None}
        yield f"changed after signing: {name}", f"{head}.{part(said)}.{sign}"
    yield "huge", f"{head}.{part({**claims, 'x': 'y' * 20_000})}.{sign}"
    yield "deep", f"{head}.{encoded(b'[' * 5_000 + b']' * 5_000)}.{sign}"
    yield "token in a token", f"{part({**header, 'cty': 'JWT'})}.{encoded(token.encode())}.{sign}"
    yield "four parts", f"{token}.x"
    yield "five parts", f"{token}.x.y"
    yield "no signature", f"{head}.{body}."
    yield "cut signature", token[:-8]
    yield "signature of another token", f"{head}.{body}.{provider.service_token().split('.')[2]}"
    yield "standard base64", f"{head}.{body}.{sign.replace('-', '+').replace('_', '/')}=="
    yield "zero signature", f"{head}.{body}.{encoded(bytes(256))}"
    yield "signature twice", f"{head}.{body}.{sign}{sign}"
    yield "two equal headers", f"{encoded(TWO_ALGORITHMS)}.{body}."


def part(said: dict[str, Any]) -> str:
    return encoded(json.dumps(said).encode())


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed_with(key: Mapping[str, Any], claims: Mapping[str, Any], header: Mapping[str, Any]) -> str:
    """Return a token that the private key *key* signs. Headers that are None are left out."""
    private = RSAAlgorithm.from_jwk(dict(key))
    assert isinstance(private, RSAPrivateKey)
    said = {name: value for name, value in header.items() if value is not None and name != "alg"}
    return jwt.encode(dict(claims), private, algorithm="RS256", headers=said)

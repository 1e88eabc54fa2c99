import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.protocol.errors import Forbidden, InvalidKey, IssuerUnavailable
from gateway.tenancy.identity.issuer import Issuer
from gateway.tenancy.identity.signing_keys import KeysUnreadableError, SigningKeys
from gateway.tenancy.identity.team_rule import TeamRule
from gateway.tenancy.identity.token_verifier import TokenVerifier, VerifiedToken
from gateway.tenancy.teams.access_records import revocation_name
from tests.gateway.tenancy.identity.signing import (
    AUDIENCE,
    CLAIMS,
    ISSUER,
    NOW,
    curve_key,
    edwards_key,
    encoded,
    jwk,
    key_set,
    raw_token,
    rsa_key,
    token,
)

OKTA = Issuer(
    name="okta",
    url=ISSUER,
    audiences=frozenset({AUDIENCE, "other-gateway"}),
    algorithms=frozenset({"ES256", "RS256", "PS256"}),
    leeway_s=30.0,
    max_lifetime_s=None,
    user_claim="sub",
    rules=(TeamRule("groups", "ml-*", "{rest}"),),
)
KEYS = key_set(jwk(curve_key()), jwk(rsa_key(), "rsa"), jwk(edwards_key(), "ed"))
PUBLIC_PEM = json.dumps(jwk(rsa_key(), "rsa"))
HEAD = {"typ": "JWT", "alg": "ES256", "kid": "k1"}


def verifier(issuer: Issuer = OKTA, *more: Issuer, document: bytes | Exception = KEYS) -> TokenVerifier:
    async def read() -> bytes:
        if isinstance(document, Exception):
            raise document
        return document

    def keys() -> SigningKeys:
        return SigningKeys("okta", read, clock=lambda: 0.0, refresh_s=300, stale_s=3600)

    return TokenVerifier([(each, keys()) for each in (issuer, *more)], wall_clock=lambda: NOW)


async def refusal(said: str, issuer: Issuer = OKTA) -> str:
    with pytest.raises(InvalidKey) as refused:
        await verifier(issuer).verify(said)
    return refused.value.message.removeprefix("Incorrect API key provided. ")


async def test_a_token_gives_the_team_and_the_end_user() -> None:
    found = await verifier().verify(token())

    assert found == VerifiedToken("okta", "alice", found.grant, NOW + 330, NOW - 40, found.revocations)
    assert "research" == found.grant.team


@pytest.mark.parametrize(
    "said",
    [
        token(rsa_key(), algorithm="RS256", head={"kid": "rsa"}),
        token(rsa_key(), algorithm="PS256", head={"kid": "rsa"}),
        token(head={"kid": None}),
        token(head={"typ": "at+jwt"}),
        token(head={"typ": None, "jku": "https://evil.example.com", "x5u": "https://evil.example.com"}),
        token(head={"jwk": jwk(curve_key("evil"))}),
        token(aud=["x", AUDIENCE]),
        token(aud="other-gateway"),
        token(exp=NOW - 29),
        token(nbf=NOW + 29, iat=NOW + 29),
        token(iat=None),
        token(exp=NOW + 300.5),
    ],
    ids=map(str, range(12)),
)
async def test_a_good_token_is_accepted(said: str) -> None:
    assert "research" == (await verifier().verify(said)).grant.team


def _flipped(said: str, part: int) -> str:
    parts = said.split(".")
    middle = len(parts[part]) // 2
    parts[part] = parts[part][:middle] + ("A" if parts[part][middle] != "A" else "B") + parts[part][middle + 1 :]
    return ".".join(parts)


NOT_SIGNED = "The token is not a signed JSON Web Token."
NOT_CLAIMS = "The token is not a JSON Web Token with the claims iss, aud and exp."
ALGORITHM = "The signature algorithm of the token is not accepted."
SIGNATURE = "The signature of the token is not valid."
NO_KEY = "The token names a signing key that its issuer does not have."
AUDIENCES = "The token was issued for another audience."
EXPIRED = "The token has expired."
EARLY = "The token is not valid yet."
TIMES = "A time in the token is not valid."
EXTENSIONS = "The token uses extensions that are not supported."
STRANGER = "The issuer of the token is not known."

FORGED: list[tuple[str, str]] = [
    # without a signature, or with one of another algorithm
    (raw_token({**HEAD, "alg": "none"}, CLAIMS, None), ALGORITHM),
    (raw_token({**HEAD, "alg": "None"}, CLAIMS, None), ALGORITHM),
    (raw_token({**HEAD, "alg": "NONE"}, CLAIMS, None), ALGORITHM),
    (raw_token({**HEAD, "alg": "nOnE"}, CLAIMS, None), ALGORITHM),
    (raw_token({**HEAD, "alg": ""}, CLAIMS, None), ALGORITHM),
    (raw_token(HEAD, CLAIMS, None), SIGNATURE),
    (token().rsplit(".", 1)[0] + ".", SIGNATURE),
    (token().rsplit(".", 1)[0], NOT_SIGNED),
    (raw_token({**HEAD, "alg": "HS256", "kid": "rsa"}, CLAIMS, PUBLIC_PEM.encode(), "HS256"), ALGORITHM),
    (raw_token({**HEAD, "alg": "HS384", "kid": "rsa"}, CLAIMS, PUBLIC_PEM.encode(), "HS384"), ALGORITHM),
    (raw_token({**HEAD, "alg": "HS512", "kid": "rsa"}, CLAIMS, PUBLIC_PEM.encode(), "HS512"), ALGORITHM),
    (raw_token({**HEAD, "alg": "RS256", "kid": "rsa"}, CLAIMS, PUBLIC_PEM.encode(), "HS256"), SIGNATURE),
    (raw_token({**HEAD, "alg": "RS1", "kid": "rsa"}, CLAIMS, rsa_key(), "RS1"), ALGORITHM),
    (token(rsa_key(), algorithm="RS384", head={"kid": "rsa"}), ALGORITHM),
    (token(edwards_key(), algorithm="EdDSA", head={"kid": "ed"}), ALGORITHM),
    (raw_token({**HEAD, "alg": "ES256K"}, CLAIMS, curve_key(), "ES256"), ALGORITHM),
    (raw_token({**HEAD, "alg": ["ES256"]}, CLAIMS, curve_key(), "ES256"), NOT_CLAIMS),
    (raw_token({"typ": "JWT", "kid": "k1"}, CLAIMS, curve_key(), "ES256"), NOT_CLAIMS),
    # of another key
    (token(curve_key("evil")), SIGNATURE),
    (token(curve_key("evil"), head={"kid": "k2"}), NO_KEY),
    (token(curve_key("evil"), head={"jwk": jwk(curve_key("evil"))}), SIGNATURE),
    (token(curve_key("evil"), head={"kid": None}), SIGNATURE),
    (token(head={"kid": "rsa"}), NO_KEY),
    (token(head={"kid": "../../dev/null"}), NO_KEY),
    (token(head={"kid": "k1' OR '1'='1"}), NO_KEY),
    (token(head={"kid": 7}), NOT_CLAIMS),
    (token(head={"kid": ["k1"]}), NOT_CLAIMS),
    (token(rsa_key(), algorithm="RS256", head={"kid": "k1"}), NO_KEY),
    # changed
    (_flipped(token(), 0), NOT_CLAIMS),
    (_flipped(token(), 2), SIGNATURE),
    (".".join([*token().split(".")[:1], *token(sub="mallory").split(".")[1:2], *token().split(".")[2:]]), SIGNATURE),
    (".".join([encoded(json.dumps({**HEAD, "x": 1}).encode()), *token().split(".")[1:]]), SIGNATURE),
    (token() + "A", SIGNATURE),
    (token() + "=", SIGNATURE),
    (token() + ".AAAA", NOT_SIGNED),
    (token() + " ", SIGNATURE),
    # for others
    (token(aud="another"), AUDIENCES),
    (token(aud=["another", "warmgate2"]), AUDIENCES),
    (token(aud=[]), AUDIENCES),
    (token(aud=""), AUDIENCES),
    (token(aud="Warmgate"), AUDIENCES),
    (token(aud="*"), AUDIENCES),
    (token(aud=None), NOT_CLAIMS),
    (token(aud={"warmgate": True}), NOT_CLAIMS),
    (token(iss="https://evil.example.com"), STRANGER),
    (token(iss=ISSUER + "/"), STRANGER),
    (token(iss=ISSUER.upper()), STRANGER),
    (token(iss=""), STRANGER),
    (token(iss=None), NOT_CLAIMS),
    (token(iss=[ISSUER]), NOT_CLAIMS),
    # at another time
    (token(exp=NOW - 30), EXPIRED),
    (token(exp=0), EXPIRED),
    (token(exp=None), NOT_CLAIMS),
    (token(exp=str(NOW + 300)), NOT_CLAIMS),
    (token(exp=True), NOT_CLAIMS),
    (token(exp=1e300), TIMES),
    (token(exp=-1), TIMES),
    (token(nbf=NOW + 31), EARLY),
    (token(iat=NOW + 31), EARLY),
    (token(nbf="tomorrow"), NOT_CLAIMS),
    (raw_token(HEAD, json.dumps(dict(CLAIMS)).replace(str(NOW + 300), "NaN").encode(), curve_key()), NOT_CLAIMS),
    (raw_token(HEAD, json.dumps(dict(CLAIMS)).replace(str(NOW + 300), "1e999").encode(), curve_key()), NOT_CLAIMS),
    # extensions and other formats
    (token(head={"crit": ["exp"]}), EXTENSIONS),
    (token(head={"crit": []}), EXTENSIONS),
    (token(head={"b64": False, "crit": ["b64"]}), EXTENSIONS),
    (token(head={"b64": False}), EXTENSIONS),
    (token(head={"cty": "JWT"}), EXTENSIONS),
    (raw_token({**HEAD, "cty": "jwt"}, token().encode(), curve_key()), NOT_CLAIMS),
    (raw_token(HEAD, token().encode(), curve_key()), NOT_CLAIMS),
    (raw_token(HEAD, b"[" * 5000, curve_key()), NOT_CLAIMS),
    (raw_token(HEAD, b"null", curve_key()), NOT_CLAIMS),
    (raw_token(HEAD, b"\xff\xfe", curve_key()), NOT_CLAIMS),
    (token(filler="x" * 20_000), NOT_SIGNED),
    ("eyJ" + "A" * 20_000 + "..", NOT_SIGNED),
    ("eyJ..", NOT_CLAIMS),
    ("..", NOT_CLAIMS),
    ("a.b.c.d.e", NOT_SIGNED),
    ("", NOT_SIGNED),
]


@pytest.mark.parametrize(("said", "why"), FORGED, ids=map(str, range(len(FORGED))))
async def test_a_forged_or_stale_token_is_refused(said: str, why: str) -> None:
    assert why == await refusal(said)


def test_the_table_has_more_than_sixty_forged_tokens() -> None:
    assert len(FORGED) >= 60


async def test_the_last_of_two_equal_claims_is_the_one_that_is_checked_and_used() -> None:
    """A parser that reads the first claim, and another that reads the last, would disagree."""
    text = json.dumps(dict(CLAIMS))[:-1] + ', "aud": "another"}'

    assert AUDIENCES == await refusal(raw_token(HEAD, text.encode(), curve_key()))


async def test_a_token_of_one_issuer_is_not_accepted_with_the_keys_of_another() -> None:
    other = replace(OKTA, name="entra", url="https://login.other.example.com")

    async def of_okta() -> bytes:
        return KEYS

    async def of_entra() -> bytes:
        return key_set(jwk(curve_key("entra")))

    def keys(name: str, read: Any) -> SigningKeys:
        return SigningKeys(name, read, clock=lambda: 0.0, refresh_s=300, stale_s=3600)

    both = TokenVerifier([(OKTA, keys("okta", of_okta)), (other, keys("entra", of_entra))], wall_clock=lambda: NOW)

    assert "entra" == (await both.verify(token(curve_key("entra"), iss=other.url))).issuer
    with pytest.raises(InvalidKey, match="signature"):
        await both.verify(token(curve_key("entra")))
    with pytest.raises(InvalidKey, match="signature"):
        await both.verify(token(iss=other.url))


@pytest.mark.parametrize(
    ("claims", "is_accepted"), [({}, True), ({"exp": NOW + 3591}, False), ({"iat": None}, False), ({"iat": NOW}, True)]
)
async def test_the_lifetime_of_tokens_can_be_limited(claims: dict[str, Any], is_accepted: bool) -> None:
    limited = replace(OKTA, max_lifetime_s=3600.0)
    if is_accepted:
        assert "alice" == (await verifier(limited).verify(token(**claims))).user
    else:
        assert "The lifetime of the token is longer than accepted." == await refusal(token(**claims), limited)


async def test_a_valid_token_without_a_team_is_refused_with_the_reason() -> None:
    with pytest.raises(Forbidden, match="no rule for the issuer 'okta' gives the token a team") as refused:
        await verifier().verify(token(groups=["sales"]))

    assert "no_team" == refused.value.code


@pytest.mark.parametrize(
    ("claims", "user"),
    [
        ({"sub": None}, None),
        ({"sub": 7}, None),
        ({"sub": "x" * 1000}, "x" * 256),
        ({"sub": "a\nb"}, None),
        ({"sub": ["first", "second"]}, "first"),
    ],
)
async def test_the_end_user_is_a_short_printable_text(claims: dict[str, Any], user: str | None) -> None:
    assert user == (await verifier().verify(token(**claims))).user


async def test_while_the_keys_cannot_be_read_a_token_is_not_judged() -> None:
    with pytest.raises(IssuerUnavailable):
        await verifier(document=KeysUnreadableError("away")).verify(token())


@pytest.mark.parametrize("said", [token(aud="another"), token(exp=0), token(iss="x"), "a.b.c"], ids="abcd")
async def test_what_is_refused_before_the_signature_needs_no_keys(said: str) -> None:
    with pytest.raises(InvalidKey):
        await verifier(document=KeysUnreadableError("away")).verify(said)


async def test_a_token_can_be_revoked_by_its_id_its_session_and_its_person() -> None:
    found = await verifier(replace(OKTA, user_claim="email")).verify(
        token(jti="j", uti="u", sid="s", sub="a", email="a@example.com")
    )

    assert found.revocations == tuple(
        revocation_name("okta", scope, value)  # type: ignore[arg-type]  # scopes are literals
        for scope, value in (
            ("token", "j"),
            ("token", "u"),
            ("session", "s"),
            ("subject", "a"),
            ("subject", "a@example.com"),
        )
    )


async def test_claims_of_other_types_name_nothing_to_revoke() -> None:
    assert () == (await verifier().verify(token(jti=1, sid=["s"], sub=None))).revocations

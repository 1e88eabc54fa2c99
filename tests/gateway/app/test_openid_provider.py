"""Login at a provider that answers on this machine."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from gateway.app.identity_rules import LoginRules
from gateway.app.openid_provider import OpenIdProvider
from gateway.console.identity_provider import LoginAttempt, LoginFailed, ProviderUnavailable
from gateway.tenancy.identity.admin_tokens import AdminTokens
from gateway.tenancy.identity.issuer import Issuer
from gateway.tenancy.identity.role_rule import RoleGrant, RoleRule
from gateway.tenancy.identity.signing_keys import SigningKeys
from gateway.tenancy.identity.token_verifier import TokenVerifier
from gateway.tenancy.teams.directory import Directory
from tests.gateway.app.test_key_sets import issuer, ok, source
from tests.gateway.examples import Clock
from tests.gateway.tenancy.identity.signing import NOW, curve_key, jwk, key_set, rsa_key, token

ATTEMPT = LoginAttempt("the-state", "the-nonce", "the-verifier")
CONSOLE = "console"
DISCOVERY = "/.well-known/openid-configuration"


@dataclass
class Stage:
    provider: OpenIdProvider
    address: str
    answers: dict[str, bytes]
    seen: list[bytes]
    clock: Clock
    document: dict[str, Any] = field(default_factory=dict)

    def publish(self, **changes: Any) -> None:
        """Publish the discovery document with *changes*. A field with the value None is left out."""
        self.document |= changes
        said = {name: value for name, value in self.document.items() if value is not None}
        self.answers[DISCOVERY] = ok(json.dumps(said).encode())

    def issue(self, **claims: Any) -> str:
        """Let the provider answer the next code with an ID token for the login, changed by *claims*."""
        known = {"iss": self.address, "aud": CONSOLE, "nonce": "the-nonce", "groups": ["owners"]}
        said = token(**{**known, **claims})
        self.answers["/token"] = ok(json.dumps({"access_token": "x", "id_token": said}).encode())
        return said

    async def failure(self, **claims: Any) -> str:
        self.issue(**claims)
        with pytest.raises(LoginFailed) as failed:
            await self.provider.exchange("code", None, ATTEMPT)
        return str(failed.value)


@asynccontextmanager
async def staged(secret: str | None = "s3cret&/") -> AsyncIterator[Stage]:
    answers: dict[str, bytes] = {}
    seen: list[bytes] = []
    async with issuer(answers, seen) as address:

        async def read() -> bytes:
            return key_set(jwk(curve_key()))

        clock = Clock()
        okta = Issuer(
            name="okta",
            url=address,
            audiences=frozenset({CONSOLE}),
            algorithms=frozenset({"ES256"}),
            leeway_s=0.0,
            max_lifetime_s=None,
            user_claim="sub",
            rules=(),
            admin_roles=(RoleRule("groups", "owners", "owner"),),
        )
        verifier = TokenVerifier(
            [(okta, SigningKeys("okta", read, clock=clock, refresh_s=300, stale_s=3600))], wall_clock=lambda: NOW
        )
        provider = OpenIdProvider(
            "okta",
            source(address),
            LoginRules(CONSOLE, secret, "https://gateway.example.com", ("openid", "profile")),
            verifier=verifier,
            tokens=AdminTokens(verifier, Directory(), wall_clock=lambda: NOW),
            clock=clock,
        )
        stage = Stage(provider, address, answers, seen, clock)
        stage.publish(issuer=address, authorization_endpoint=f"{address}/auth?x=1", token_endpoint=f"{address}/token")
        yield stage


async def test_the_browser_goes_to_the_provider_with_a_challenge() -> None:
    async with staged() as stage:
        url = urlsplit(await stage.provider.authorization_url(ATTEMPT))

    assert "/auth" == url.path
    assert {
        "x": ["1"],
        "client_id": ["console"],
        "response_type": ["code"],
        "redirect_uri": ["https://gateway.example.com/console/login/callback"],
        "scope": ["openid profile"],
        "state": ["the-state"],
        "nonce": ["the-nonce"],
        "code_challenge": ["sP6XQ2T7IHwj7eBkdcI9xyC8WxEik0RMQk0tVGDKZPI"],
        "code_challenge_method": ["S256"],
    } == parse_qs(url.query)


async def test_a_code_is_exchanged_for_the_person() -> None:
    async with staged() as stage:
        said = stage.issue()
        signed_in = await stage.provider.exchange("code", stage.address, ATTEMPT)
        head = stage.seen[-1].decode()

    assert ("okta", "alice", RoleGrant("owner")) == (
        signed_in.person.issuer,
        signed_in.person.user,
        signed_in.person.grant,
    )
    assert (said, True) == (signed_in.id_token, signed_in.still_holds())
    assert head.startswith("POST /token ")
    assert f"Basic {base64.b64encode(b'console:s3cret%26%2F').decode()}" in head


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"nonce": "another"}, "belongs to another login"),
        ({"nonce": None}, "belongs to another login"),
        ({"nonce": ["the-nonce"]}, "belongs to another login"),
        ({"aud": "another"}, "another audience"),
        ({"aud": ["console", "another"]}, "another client"),
        ({"aud": ["console", "another"], "azp": "another"}, "another client"),
        ({"azp": "another"}, "another client"),
        ({"iss": "https://login.example.com/realms/ai"}, "issuer of the token is not known"),
        ({"exp": NOW - 1}, "expired"),
        ({"key": rsa_key()}, "not accepted"),
        ({"groups": ["Owners"]}, "gives it a role"),
        ({"groups": [], "role": "owner", "roles": ["owners"]}, "gives it a role"),
        ({"sub": None}, "names no user"),
    ],
)
async def test_an_id_token_that_is_not_for_this_login_is_refused(claims: dict[str, Any], message: str) -> None:
    async with staged() as stage:
        if "key" in claims:
            claims = {**claims, "algorithm": "RS256"}

        assert message in await stage.failure(**claims)


@pytest.mark.parametrize("claims", [{"aud": ["console"]}, {"aud": ["console", "x"], "azp": "console"}])
async def test_a_client_that_is_named_as_the_party_is_accepted(claims: dict[str, Any]) -> None:
    async with staged() as stage:
        stage.issue(**claims)

        assert "alice" == (await stage.provider.exchange("code", None, ATTEMPT)).person.user


@pytest.mark.parametrize("stated", ["https://evil.example.com", None])
async def test_an_answer_of_another_provider_is_refused_before_the_code_is_sent(stated: str | None) -> None:
    async with staged() as stage:
        stage.issue()
        stage.publish(authorization_response_iss_parameter_supported=True)
        with pytest.raises(LoginFailed, match="another identity provider"):
            await stage.provider.exchange("code", stated, ATTEMPT)

        assert not any(head.startswith(b"POST") for head in stage.seen)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (b'HTTP/1.1 400 Bad\r\ncontent-length: 25\r\n\r\n{"error":"invalid_grant"}\n', LoginFailed, "status 400"),
        (b"HTTP/1.1 302 Found\r\nlocation: https://evil\r\ncontent-length: 0\r\n\r\n", LoginFailed, "status 302"),
        (b"HTTP/1.1 500 Bad\r\ncontent-length: 0\r\n\r\n", ProviderUnavailable, "status 500"),
        (b"HTTP/1.1 429 Slow\r\ncontent-length: 0\r\n\r\n", ProviderUnavailable, "status 429"),
        (b"", ProviderUnavailable, "cannot be reached"),
        (ok(b'{"access_token": "x"}'), LoginFailed, "openid"),
        (ok(b"<html>"), LoginFailed, "openid"),
        (ok(b"x" * 1_048_577), ProviderUnavailable, "too large"),
    ],
    ids=map(str, range(8)),
)
async def test_an_answer_without_an_id_token_is_a_failure(answer: bytes, error: type[Exception], message: str) -> None:
    async with staged() as stage:
        stage.answers["/token"] = answer
        with pytest.raises(error, match=message):
            await stage.provider.exchange("code", None, ATTEMPT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"issuer": "https://evil.example.com"}, "another issuer"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "without encryption"),
        ({"token_endpoint": "ftp://x"}, "without encryption"),
        ({"end_session_endpoint": "https://x/\r\nset-cookie: y"}, "without encryption"),
        ({"token_endpoint": None}, "does not describe a login"),
    ],
)
async def test_a_discovery_document_that_leads_elsewhere_is_refused(changes: dict[str, Any], message: str) -> None:
    async with staged() as stage:
        stage.publish(**changes)
        with pytest.raises(ProviderUnavailable, match=message):
            await stage.provider.authorization_url(ATTEMPT)


async def test_an_outage_is_asked_about_every_two_seconds() -> None:
    async with staged() as stage:
        document = stage.answers.pop(DISCOVERY)
        for _ in range(3):
            with pytest.raises(ProviderUnavailable, match="status 404"):
                await stage.provider.authorization_url(ATTEMPT)
        assert 1 == len(stage.seen)
        stage.answers[DISCOVERY] = document
        stage.clock.now += 2

        assert "/auth?" in await stage.provider.authorization_url(ATTEMPT)
        assert "/auth?" in await stage.provider.authorization_url(ATTEMPT)
        assert 2 == len(stage.seen)


async def test_no_one_is_led_to_a_provider_that_is_down_but_a_login_that_began_is_completed() -> None:
    async with staged() as stage:
        await stage.provider.authorization_url(ATTEMPT)
        stage.issue()
        del stage.answers[DISCOVERY]
        stage.clock.now += 2
        with pytest.raises(ProviderUnavailable, match="status 404"):
            await stage.provider.authorization_url(ATTEMPT)

        # The fault concerns new logins only.
        assert "alice" == (await stage.provider.exchange("code", None, ATTEMPT)).person.user


async def test_the_logout_names_the_session_and_where_to_return() -> None:
    async with staged() as stage:
        said = stage.issue()
        signed_in = await stage.provider.exchange("code", None, ATTEMPT)
        assert await stage.provider.logout_url(signed_in) is None
        stage.publish(end_session_endpoint=f"{stage.address}/end")
        stage.clock.now += 300
        await stage.provider.authorization_url(ATTEMPT)
        url = urlsplit(str(await stage.provider.logout_url(signed_in)))
        without = urlsplit(str(await stage.provider.logout_url(replace(signed_in, id_token=None))))

    known = {"client_id": ["console"], "post_logout_redirect_uri": ["https://gateway.example.com/console/login"]}
    assert ("/end", {**known, "id_token_hint": [said]}) == (url.path, parse_qs(url.query))
    assert known == parse_qs(without.query)


async def test_a_public_client_sends_no_secret() -> None:
    async with staged(secret=None) as stage:
        stage.issue()
        await stage.provider.exchange("code", None, ATTEMPT)

        assert b"authorization" not in stage.seen[-1].lower()

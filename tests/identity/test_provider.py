"""The provider itself: people sign in with a browser, by the authorization code grant with PKCE or with a device."""

import base64
import hashlib
from urllib.parse import urlencode

import httpx
import jwt

from tests.identity.provider import AUDIENCE, CONSOLE, CONSOLE_SECRET, Browser, Provider, query_of

VERIFIER = "a-verifier-of-more-than-forty-three-characters-00"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


def test_a_person_signs_in_at_the_console_client(provider: Provider) -> None:
    redirect = provider.console_redirects[0]
    query = {
        "client_id": CONSOLE,
        "response_type": "code",
        "redirect_uri": redirect,
        "scope": "openid profile",
        "state": "s",
        "nonce": "n",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    browser = Browser(provider, "olga")
    back = browser.visit(f"{provider.url}/auth?{urlencode(query)}")
    browser.close()
    form = {
        "grant_type": "authorization_code",
        "code": query_of(back)["code"],
        "redirect_uri": redirect,
        "code_verifier": VERIFIER,
    }
    answer = httpx.post(f"{provider.url}/token", data=form, auth=(CONSOLE, CONSOLE_SECRET), timeout=60).json()
    claims = jwt.decode(answer["id_token"], options={"verify_signature": False})

    assert back.startswith(f"{redirect}?")
    assert "s" == query_of(back)["state"]
    assert ("olga", ["warmgate-owners"], "n", CONSOLE) == tuple(
        claims[each] for each in ("sub", "groups", "nonce", "aud")
    )


def test_a_person_confirms_a_device(provider: Provider) -> None:
    claims = jwt.decode(provider.device_token("alice"), options={"verify_signature": False})

    assert ("alice", ["llm-research"], AUDIENCE) == tuple(claims[each] for each in ("sub", "groups", "aud"))

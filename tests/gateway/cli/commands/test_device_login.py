"""Facts about the device authorization grant, with a provider that a test plays."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

from gateway.cli.commands.device_login import DeviceLogin, LoginEnded, is_encrypted
from gateway.cli.commands.output import CommandFailed
from gateway.cli.commands.stored_logins import StoredLogin

ISSUER = "https://login.example.com/realms/ai"
WANTED = StoredLogin(
    url="https://gateway.example.com",
    issuer=ISSUER,
    client_id="cli",
    scope="openid",
    access_token="",
    expires_at=0.0,
)
CODE = {"device_code": "d3vice", "user_code": "ABCD-EFGH", "verification_uri": f"{ISSUER}/device", "interval": 5}
TOKENS = {"access_token": "a.b.c", "expires_in": 600, "refresh_token": "r3fresh"}


class Stage:
    """Provider that gives *answers* to its paths: one for each request, and the last one again and again."""

    def __init__(self, **answers: list[tuple[int, Any]]) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.forms: list[dict[str, str]] = []
        self.document: dict[str, Any] = {
            "issuer": ISSUER,
            "token_endpoint": f"{ISSUER}/token",
            "device_authorization_endpoint": f"{ISSUER}/device/auth",
            "revocation_endpoint": f"{ISSUER}/revoke",
        }
        self.answers: dict[str, list[tuple[int, Any]]] = {
            "device/auth": [(200, CODE)],
            "revoke": [(200, {})],
            **answers,
        }
        http = httpx.AsyncClient(transport=httpx.MockTransport(self._serve))
        self.device = DeviceLogin(http, ISSUER, "cli", clock=lambda: self.now, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def _serve(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/realms/ai/")
        if path == ".well-known/openid-configuration":
            return httpx.Response(200, json=self.document)
        self.forms.append({name: values[0] for name, values in parse_qs(request.content.decode()).items()})
        waiting = self.answers[path]
        status, said = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if isinstance(said, Exception):
            raise said
        return httpx.Response(status, content=said if isinstance(said, bytes) else json.dumps(said))

    async def log_in(self, resource: str | None = None) -> StoredLogin:
        addresses = await self.device.addresses()
        code = await self.device.begin(addresses, "openid", resource)
        return await self.device.wait(addresses, code, WANTED)


def fault(error: str) -> tuple[int, Any]:
    return 400, {"error": error, "error_description": "\x1b[2Jx"}


async def test_a_person_confirms_the_code_and_gets_tokens() -> None:
    stage = Stage(token=[fault("authorization_pending"), fault("slow_down"), (200, TOKENS)])
    login = await stage.log_in("urn:warmgate")

    assert ("a.b.c", 1000 + 20 + 600, "r3fresh") == (login.access_token, login.expires_at, login.refresh_token)
    assert [5, 5, 10] == stage.slept
    assert {"client_id": "cli", "scope": "openid", "resource": "urn:warmgate"} == stage.forms[0]
    assert {
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
        "device_code": "d3vice",
        "client_id": "cli",
    } == stage.forms[1]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (fault("access_denied"), "The login was not completed: access_denied."),
        (fault("expired_token"), "The login was not completed: expired_token."),
        (fault("\x1b[2J"), "The login was not completed: status 400."),
        ((500, b"<html>"), "The login was not completed: status 500."),
        ((200, b"<html>"), "something other than tokens"),
        ((200, {"access_token": "opaque"}), "not a JSON Web Token"),
        ((200, httpx.ConnectError("no")), "The provider cannot be reached: ConnectError."),
    ],
    ids=map(str, range(7)),
)
async def test_a_login_that_is_not_completed_says_why(answer: tuple[int, Any], message: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        await Stage(token=[answer]).log_in()

    assert message in str(failed.value)


async def test_a_code_that_no_one_confirms_expires() -> None:
    stage = Stage(token=[fault("authorization_pending")])
    stage.answers["device/auth"] = [(200, {**CODE, "expires_in": 12, "interval": 0})]
    with pytest.raises(CommandFailed, match="not confirmed in time"):
        await stage.log_in()

    assert [1.0] * 12 == stage.slept


@pytest.mark.parametrize(
    "said",
    [
        {**CODE, "user_code": "\x1b[31m"},
        {**CODE, "verification_uri": "http://evil.example.com"},
        {**CODE, "verification_uri": "javascript:x"},
        {**CODE, "verification_uri_complete": "https://x/\n"},
        {"device_code": "x"},
        [],
    ],
    ids=map(str, range(6)),
)
async def test_a_code_that_cannot_be_shown_is_refused(said: Any) -> None:
    stage = Stage()
    stage.answers["device/auth"] = [(200, said)]
    with pytest.raises(CommandFailed):
        await stage.log_in()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"issuer": "https://evil.example.com"}, "another issuer"),
        ({"token_endpoint": "http://login.example.com/token"}, "without encryption"),
        ({"revocation_endpoint": "ftp://x"}, "without encryption"),
        ({"token_endpoint": None}, "not the document"),
        ({"device_authorization_endpoint": None}, "does not offer"),
    ],
)
async def test_a_provider_that_is_another_one_is_refused(changes: dict[str, Any], message: str) -> None:
    stage = Stage()
    stage.document |= changes
    with pytest.raises(CommandFailed, match=message):
        await stage.log_in()

    assert [] == stage.forms


async def test_a_refresh_keeps_the_refresh_token_if_there_is_no_new_one() -> None:
    stage = Stage(token=[(200, TOKENS), (200, {"access_token": "d.e.f"}), (200, {**TOKENS, "refresh_token": "n3w"})])
    login = await stage.log_in()
    second = await stage.device.refreshed(login)
    third = await stage.device.refreshed(second)

    assert ("d.e.f", 1005 + 300, "r3fresh") == (second.access_token, second.expires_at, second.refresh_token)
    assert "n3w" == third.refresh_token
    assert {"grant_type": "refresh_token", "refresh_token": "r3fresh", "client_id": "cli"} == stage.forms[-1]


@pytest.mark.parametrize(
    ("answer", "error"),
    [(fault("invalid_grant"), LoginEnded), ((503, b""), CommandFailed), ((429, b""), CommandFailed)],
)
async def test_an_outage_does_not_end_a_login(answer: tuple[int, Any], error: type[Exception]) -> None:
    stage = Stage(token=[(200, TOKENS), answer])
    login = await stage.log_in()
    with pytest.raises(CommandFailed) as failed:
        await stage.device.refreshed(login)

    assert error is type(failed.value)


async def test_without_a_refresh_token_the_login_has_ended() -> None:
    with pytest.raises(LoginEnded):
        await Stage().device.refreshed(WANTED)


@pytest.mark.parametrize(("endpoint", "is_revoked"), [(f"{ISSUER}/revoke", True), (None, False)])
async def test_a_logout_revokes_the_refresh_token(endpoint: str | None, is_revoked: bool) -> None:
    stage = Stage(token=[(200, TOKENS)])
    stage.document["revocation_endpoint"] = endpoint
    login = await stage.log_in()

    assert is_revoked == await stage.device.revoke(login)
    if is_revoked:
        assert {"token": "r3fresh", "token_type_hint": "refresh_token", "client_id": "cli"} == stage.forms[-1]


def _encrypted(check: Callable[[str], bool], urls: list[str]) -> list[bool]:
    return [check(url) for url in urls]


def test_only_this_machine_needs_no_encryption() -> None:
    assert [True] * 4 == _encrypted(
        is_encrypted, ["https://a", "http://127.0.0.1:1/x", "http://localhost", "http://[::1]:2"]
    )
    assert [False] * 4 == _encrypted(
        is_encrypted, ["http://a", "http://localhost.evil.example.com", "http://127.0.0.1@evil", "ftp://a"]
    )

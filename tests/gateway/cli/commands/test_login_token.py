"""Facts about the token of a login that the commands use."""

from pathlib import Path

import msgspec
import pytest

from gateway.cli.commands.login_token import stored_token
from gateway.cli.commands.output import CommandFailed
from gateway.cli.commands.stored_logins import StoredLogins
from tests.gateway.app.test_key_sets import issuer, ok
from tests.gateway.cli.commands.test_stored_logins import LOGIN

NEVER = 4e9
"""A time that no test reaches, in seconds since 1970."""


def environ(folder: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(folder)}


def logins(folder: Path) -> StoredLogins:
    return StoredLogins(folder / "warmgate" / "logins")


async def test_without_a_login_there_is_no_token(tmp_path: Path) -> None:
    assert await stored_token(LOGIN.url, environ(tmp_path)) is None


async def test_a_fresh_token_is_used_as_it_is(tmp_path: Path) -> None:
    logins(tmp_path).save(msgspec.structs.replace(LOGIN, expires_at=NEVER))

    assert "a.b.c" == await stored_token(LOGIN.url, environ(tmp_path))


async def test_a_token_that_expires_is_refreshed_and_kept(tmp_path: Path) -> None:
    answers: dict[str, bytes] = {"/token": ok(b'{"access_token": "d.e.f", "expires_in": 4e9, "refresh_token": "n3w"}')}
    seen: list[bytes] = []
    async with issuer(answers, seen) as address:
        document = b'{"issuer": "%s", "token_endpoint": "%s/token"}' % (address.encode(), address.encode())
        answers["/.well-known/openid-configuration"] = ok(document)
        logins(tmp_path).save(msgspec.structs.replace(LOGIN, issuer=address, expires_at=0.0))
        tokens = [await stored_token(LOGIN.url, environ(tmp_path)) for _ in range(2)]

    kept = logins(tmp_path).load(LOGIN.url)
    assert kept is not None
    assert (["d.e.f", "d.e.f"], "n3w", 2) == (tokens, kept.refresh_token, len(seen))


async def test_a_login_that_cannot_be_refreshed_is_kept_for_later(tmp_path: Path) -> None:
    login = msgspec.structs.replace(LOGIN, issuer="http://127.0.0.1:1", expires_at=0.0)
    logins(tmp_path).save(login)
    with pytest.raises(CommandFailed, match="The provider cannot be reached"):
        await stored_token(LOGIN.url, environ(tmp_path))

    assert login == logins(tmp_path).load(LOGIN.url)

"""Facts about `warmgate login` and `warmgate logout`; tests/identity has them with a real provider."""

from pathlib import Path

import msgspec
import pytest

from gateway.cli.commands.stored_logins import StoredLogins
from tests.gateway.cli.commands.terminal import Terminal, terminal
from tests.gateway.cli.commands.test_stored_logins import LOGIN

__all__ = ["terminal"]

NOWHERE = "http://127.0.0.1:1"
"""Where no one listens."""
FIRST = ("--issuer", NOWHERE, "--client-id", "cli")


def logins(terminal: Terminal) -> StoredLogins:
    return StoredLogins(Path(terminal.store.parent) / "config" / "warmgate" / "logins")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("login",), "No gateway is given. Use --url or WARMGATE_ADMIN_URL."),
        (("logout",), "No gateway is given. Use --url or WARMGATE_ADMIN_URL."),
        (("login", "--url", NOWHERE), "The first login to a gateway needs --issuer and --client-id."),
        (
            ("login", "--url", NOWHERE, "--issuer", "http://login.example.com", "--client-id", "cli"),
            "--issuer must begin with https://, unless the host is this machine.",
        ),
        (
            ("login", "--url", "http://gateway.example.com", *FIRST),
            "The address of the gateway must begin with https://, unless the host is this machine, because others "
            "could read the token.",
        ),
    ],
    ids=map(str, range(5)),
)
def test_a_login_needs_a_gateway_and_an_issuer(terminal: Terminal, arguments: tuple[str, ...], message: str) -> None:
    assert (2, "", f"{message}\n") == terminal.run(*arguments)


def test_a_provider_that_is_down_is_reported(terminal: Terminal) -> None:
    code, out, err = terminal.run("login", "--url", NOWHERE, *FIRST)

    assert (1, "", "The provider cannot be reached: ConnectError.\n") == (code, out, err)


def test_a_login_serves_the_gateway_of_the_login_only(terminal: Terminal) -> None:
    logins(terminal).save(msgspec.structs.replace(LOGIN, url=NOWHERE, expires_at=4e9))

    assert f"{NOWHERE} cannot be reached" in terminal.run("team", "list", "--url", NOWHERE).err
    assert "WARMGATE_ADMIN_KEY is not set" in terminal.run("team", "list", "--url", f"{NOWHERE}/other").err


def test_an_expired_login_without_a_refresh_token_has_ended(terminal: Terminal) -> None:
    logins(terminal).save(msgspec.structs.replace(LOGIN, url=NOWHERE, expires_at=0.0, refresh_token=None))

    assert (2, "", "The login has expired. Run warmgate login again.\n") == terminal.run(
        "team", "list", "--url", NOWHERE
    )


def test_an_admin_key_comes_before_a_login(terminal: Terminal) -> None:
    logins(terminal).save(msgspec.structs.replace(LOGIN, url=NOWHERE, expires_at=0.0))
    terminal.monkeypatch.setenv("WARMGATE_ADMIN_KEY", "some-admin-key")

    assert f"{NOWHERE} cannot be reached" in terminal.run("team", "list", "--url", NOWHERE).err


def test_a_logout_deletes_the_login_also_while_the_provider_is_down(terminal: Terminal) -> None:
    logins(terminal).save(msgspec.structs.replace(LOGIN, url=NOWHERE, issuer=NOWHERE))
    first, second = (terminal.run("logout", "--url", NOWHERE) for _ in range(2))

    assert (
        1,
        "The login was deleted here, but not at the provider. The provider cannot be reached: ConnectError.\n",
    ) == (
        first.code,
        first.err,
    )
    assert (0, f"There is no login to {NOWHERE}.\n") == (second.code, second.out)


def test_a_logout_deletes_a_file_that_cannot_be_used(terminal: Terminal) -> None:
    kept = logins(terminal)
    kept.save(msgspec.structs.replace(LOGIN, url=NOWHERE))
    (path,) = (Path(terminal.store.parent) / "config" / "warmgate" / "logins").glob("*.json")
    path.write_text("{")

    assert (0, "The login was deleted.\n") == terminal.run("logout", "--url", NOWHERE)[:2]
    assert not path.exists()

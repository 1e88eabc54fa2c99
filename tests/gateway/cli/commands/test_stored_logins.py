"""Facts about the files with the tokens of people."""

import stat
from pathlib import Path

import msgspec
import pytest

from gateway.cli.commands.output import CommandFailed
from gateway.cli.commands.stored_logins import StoredLogin, StoredLogins, folder_of

LOGIN = StoredLogin(
    url="https://gateway.example.com",
    issuer="https://login.example.com",
    client_id="cli",
    scope="openid",
    access_token="a.b.c",
    expires_at=1.0,
    refresh_token="r3fresh",
)


def file_of(folder: Path) -> Path:
    (path,) = folder.glob("*.json")
    return path


def test_a_login_is_read_only_by_its_owner(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "logins"
    StoredLogins(folder).save(LOGIN)

    assert LOGIN == StoredLogins(folder).load(LOGIN.url)
    assert (0o600, 0o700) == (stat.S_IMODE(file_of(folder).stat().st_mode), stat.S_IMODE(folder.stat().st_mode))
    assert [file_of(folder)] == list(folder.iterdir())


def test_each_gateway_has_its_own_login(tmp_path: Path) -> None:
    logins = StoredLogins(tmp_path)
    other = msgspec.structs.replace(LOGIN, url="https://other.example.com", access_token="d.e.f")
    logins.save(LOGIN)
    logins.save(other)
    logins.save(msgspec.structs.replace(LOGIN, access_token="g.h.i"))

    assert ["g.h.i", "d.e.f"] == [found.access_token for url in (LOGIN.url, other.url) if (found := logins.load(url))]
    assert logins.load("https://gateway.example.com/warm") is None
    assert [True, False] == [logins.delete(LOGIN.url), logins.delete(LOGIN.url)]
    assert (None, other) == (logins.load(LOGIN.url), logins.load(other.url))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    logins = StoredLogins(tmp_path)
    logins.save(LOGIN)
    file_of(tmp_path).chmod(mode)

    with pytest.raises(CommandFailed, match="Other users can read"):
        logins.load(LOGIN.url)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"url": "x"}', b"\xff"])
def test_a_damaged_file_is_reported_without_its_content(tmp_path: Path, content: bytes) -> None:
    logins = StoredLogins(tmp_path)
    logins.save(LOGIN)
    file_of(tmp_path).write_bytes(content)

    with pytest.raises(CommandFailed, match="is damaged"):
        logins.load(LOGIN.url)


def test_a_copied_file_gives_no_token_to_another_gateway(tmp_path: Path) -> None:
    logins = StoredLogins(tmp_path)
    logins.save(LOGIN)
    content = file_of(tmp_path).read_bytes()
    logins.delete(LOGIN.url)
    logins.save(msgspec.structs.replace(LOGIN, url="https://evil.example.com"))
    file_of(tmp_path).write_bytes(content)

    assert logins.load("https://evil.example.com") is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    logins = StoredLogins(tmp_path)
    logins.save(LOGIN)
    path = file_of(tmp_path)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(CommandFailed, match="cannot be read"):
        logins.load(LOGIN.url)
    logins.save(LOGIN)
    assert not path.is_symlink()


def test_tokens_are_not_shown() -> None:
    assert "StoredLogin(url='https://gateway.example.com', issuer='https://login.example.com')" == repr(LOGIN)


def test_the_folder_is_that_of_the_user() -> None:
    assert Path("/c/warmgate/logins") == folder_of({"XDG_CONFIG_HOME": "/c", "HOME": "/h"})
    assert Path("/h/.config/warmgate/logins") == folder_of({"XDG_CONFIG_HOME": "relative", "HOME": "/h"})
    assert Path("/h/.config/warmgate/logins") == folder_of({"HOME": "/h"})

"""Tokens of people who logged in with `warmgate login`, in files that only their owner can read.

Each gateway has a file of its own, so that a token is never sent to another gateway than the one of the login.
"""

import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from gateway.cli.commands.output import CommandFailed

MAX_BYTES: Final = 262_144
"""Maximum size of a file."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class StoredLogin(msgspec.Struct, frozen=True, kw_only=True):
    """Login at one gateway. The representation must not be shown, because it contains tokens."""

    url: str
    """Address of the gateway."""
    issuer: str
    client_id: str
    scope: str
    resource: str | None = None
    access_token: str
    expires_at: float
    """Time at which the access token expires, in seconds since 1970."""
    refresh_token: str | None = None

    def __repr__(self) -> str:
        return f"StoredLogin(url={self.url!r}, issuer={self.issuer!r})"


class StoredLogins:
    """Logins in the files of *folder*, which is created when it is needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, url: str) -> StoredLogin | None:
        """Return the login at the gateway *url*, or None if no one logged in there.

        Raises:
            CommandFailed: if the file cannot be read, or other users of the machine can read it.
        """
        path = self._path(url)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as fault:
            raise CommandFailed(f"{path} cannot be read: {fault.strerror}.") from None
        with os.fdopen(descriptor, "rb") as file:
            if os.fstat(descriptor).st_mode & _OTHERS:
                text = f"Other users can read {path}, which contains a token."
                raise CommandFailed(f"{text} Run warmgate logout, and log in again.")
            content = file.read(MAX_BYTES)
        try:
            login = msgspec.json.decode(content, type=StoredLogin)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise CommandFailed(f"{path} is damaged. Run warmgate logout, and log in again.") from None
        return login if login.url == url else None

    def save(self, login: StoredLogin) -> None:
        """Write *login* as a whole, with the mode 0600.

        Raises:
            CommandFailed: if the file cannot be written.
        """
        path = self._path(login.url)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            self._create_folder()
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(msgspec.json.encode(login))
                    file.flush()
                    os.fsync(descriptor)
                draft.replace(path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
        except OSError as fault:
            raise CommandFailed(f"{path} cannot be written: {fault.strerror}.") from None

    def delete(self, url: str) -> bool:
        """Delete the login at the gateway *url*, and return whether there was a file."""
        try:
            self._path(url).unlink()
        except FileNotFoundError:
            return False
        except OSError as fault:
            raise CommandFailed(f"{self._path(url)} cannot be deleted: {fault.strerror}.") from None
        return True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands from refreshing a token inside the context, because a refresh token can be used once."""
        try:
            self._create_folder()
            descriptor = os.open(self._folder / ".lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as fault:
            raise CommandFailed(f"{self._folder} cannot be used: {fault.strerror}.") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            with suppress(OSError):
                os.close(descriptor)

    def _create_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _path(self, url: str) -> Path:
        return self._folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"


def folder_of(environ: Mapping[str, str]) -> Path:
    """Return the folder for logins: below ``XDG_CONFIG_HOME``, or below ``.config`` in the home folder."""
    configured, home = Path(environ.get("XDG_CONFIG_HOME", "")), environ.get("HOME")
    usual = (Path(home) if home else Path.home()) / ".config"
    return (configured if configured.is_absolute() else usual) / "warmgate" / "logins"

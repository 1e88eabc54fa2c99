"""Open pages of the console whose live parts are updated, as a browser keeps them open."""

import contextlib
import http.client
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlencode, urlsplit

from benchmarks.processes import ChildFailedError

PAGES: Final = ("/console", "/console/requests")
"""The pages Overview and Requests."""
TIMEOUT_S: Final = 60.0

_cookie = re.compile(r"__Host-[^=;]+=[^;]+").match


class OpenPage:
    """Event stream of one page, which a thread reads until it ends."""

    def __init__(self, url: str, path: str, cookie: str) -> None:
        """Open the page *path*. Raise `ChildFailedError` if the console refuses it."""
        self._connection = _connection(url)
        self._connection.connect()
        self._socket: socket.socket = self._connection.sock
        self._connection.request("GET", path, headers={"cookie": cookie, "accept": "text/event-stream"})
        self._answer = self._connection.getresponse()
        if self._answer.status != 200:
            self._connection.close()
            raise ChildFailedError(f"the console answered {self._answer.status} for {path}")
        self.events = 0
        """Number of received updates of live parts."""
        self._first = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait_for_update(self) -> None:
        """Wait for the first update. Raise `ChildFailedError` if no update arrives."""
        if not self._first.wait(TIMEOUT_S):
            raise ChildFailedError(f"no update of a page of the console within {TIMEOUT_S:g} s")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # the thread then reads the end of the stream
        self._thread.join(TIMEOUT_S)
        self._connection.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):  # it is closed meanwhile
            while line := self._answer.readline():
                if line.startswith(b"event:"):
                    self.events += 1
                    self._first.set()


@contextlib.contextmanager
def open_pages(url: str, secret: str, paths: Sequence[str] = PAGES) -> Iterator[list[OpenPage]]:
    """Keep *paths* of the console at *url* open while the context is active, logged in with the admin key *secret*.

    Raises:
        ChildFailedError: if the login is refused, or if a page gets no update.
    """
    cookie = log_in(url, secret)
    with contextlib.ExitStack() as stack:
        pages = []
        for path in paths:
            page = OpenPage(url, path, cookie)
            stack.callback(page.close)
            pages.append(page)
        for page in pages:
            page.wait_for_update()
        yield pages


def log_in(url: str, secret: str) -> str:
    """Return the cookie of a new session. Raise `ChildFailedError` if the login is refused."""
    with contextlib.closing(_connection(url)) as connection:
        headers = {"content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin"}
        connection.request("POST", "/console/login", urlencode({"key": secret}), headers)
        answer = connection.getresponse()
        found = _cookie(answer.headers.get("set-cookie") or "")
    if found is None:
        raise ChildFailedError(f"the console answered {answer.status} to a login")
    return found[0]


def _connection(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)

"""Pages of the console that a benchmark keeps open, against a server that answers like the console."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from benchmarks.open_pages import log_in, open_pages
from benchmarks.processes import ChildFailedError

COOKIE = "__Host-warmgate-console=abc"


class _Console(BaseHTTPRequestHandler):
    """Console with the admin key `s3cret`. A page gets one update, and stays open until the browser leaves."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # name of the library
        form = self.rfile.read(int(self.headers["content-length"]))
        is_known = self.path == "/console/login" and form == b"key=s3cret"
        self.send_response(303 if is_known else 403)
        if is_known:
            self.send_header("set-cookie", f"{COOKIE}; Path=/; Secure; HttpOnly")
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:  # name of the library
        is_page = self.headers["cookie"] == COOKIE and self.path in ("/console", "/console/requests")
        self.send_response(200 if is_page else 404)
        if not is_page:
            self.send_header("content-length", "0")
        self.end_headers()
        if is_page:
            self.wfile.write(b"event: part\ndata: {}\n\n")
            self.rfile.read(1)
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def a_console() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Console) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_open_pages_get_updates_until_the_end() -> None:
    """Both pages have one update. Afterwards the server, which waits for its connections, can end."""
    with a_console() as url, open_pages(url, "s3cret") as pages:
        assert [1, 1] == [page.events for page in pages]


def test_a_login_that_is_refused_is_reported() -> None:
    with a_console() as url, pytest.raises(ChildFailedError, match="the console answered 403 to a login"):
        log_in(url, "wrong")


def test_a_page_that_is_refused_is_reported() -> None:
    with (
        a_console() as url,
        pytest.raises(ChildFailedError, match="the console answered 404 for /console/nothing"),
        open_pages(url, "s3cret", ["/console/nothing"]),
    ):
        pass

"""A web site of an attacker, which a person who is logged in to the console visits."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """Pages of the attacker by their paths."""

    port: int
    pages: dict[str, str] = field(default_factory=dict)

    def address(self, path: str, *, host: str) -> str:
        return f"http://{host}:{self.port}{path}"


@contextmanager
def attacker() -> Iterator[Site]:
    """Serve the site on a free port of this machine, under 127.0.0.1 and localhost."""
    site = Site(0)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = site.pages.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server has it
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

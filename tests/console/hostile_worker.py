"""A worker that answers with probes: in texts of answers, and in error messages."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

from tests.console.probes import PROBES

_TURN = count()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(200, {"object": "list", "data": []})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        turn = next(_TURN)
        probe = PROBES[turn % len(PROBES)]
        if turn % 3 == 0:
            self._answer(400, {"error": {"message": probe, "type": probe, "code": probe, "param": probe}})
        elif turn % 3 == 1:
            self._answer(500, {"error": {"message": probe, "type": probe, "code": 500}})
        else:
            message = {"role": "assistant", "content": probe}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 40, "completion_tokens": 5, "total_tokens": 45}
            self._answer(200, {"id": probe, "object": "x", "model": probe, "choices": [choice], "usage": usage})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server has it
        return


@contextmanager
def hostile_worker() -> Iterator[int]:
    """Serve on all addresses of this machine, such as 127.0.0.1 and 127.0.0.2, and yield the port."""
    server = ThreadingHTTPServer(("0.0.0.0", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

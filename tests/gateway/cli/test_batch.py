"""`warmgate batch` before a server that answers as a gateway does."""

import io
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gateway.cli.main import main

BATCH = {
    "id": "batch_1",
    "object": "batch",
    "status": "in_progress",
    "endpoint": "/v1/embeddings",
    "errors": None,
    "created_at": 100,
    "request_counts": {"total": 5, "completed": 2, "failed": 1},
}
FAULT = {"code": "invalid_request", "message": "It is wrong", "param": "body", "line": 3}


class Printed(NamedTuple):
    code: int
    out: str
    err: str


class Server:
    """Answers with what `answers` has for a path, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {}
        self.asked: list[tuple[str, str, bytes]] = []
        self.keys: set[str | None] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def log_message(self, *_: object) -> None: ...

            def _answer(self) -> None:
                outer.keys.add(self.headers["authorization"])
                length = self.headers["content-length"]
                outer.asked.append((self.command, self.path, self._body(length)))
                status, answer = outer.answers.get(self.path.partition("?")[0], (404, {"error": {"message": "No"}}))
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def _body(self, length: str | None) -> bytes:
                return self.rfile.read(int(length or 0))

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("WARMGATE_API_KEY", "wg-key")
    monkeypatch.setenv("WARMGATE_URL", f"{made.url}/v1")
    yield made
    made.http.shutdown()
    made.http.server_close()
    thread.join()


def printed(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Printed:
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        code = main(["batch", *arguments])
        out.flush()
    return Printed(code, out.buffer.getvalue().decode(), err.getvalue())


def test_a_file_is_submitted(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"a": 1}\n')
    server.answers = {"/v1/files": (200, {"id": "file-1"}), "/v1/batches": (200, BATCH)}
    shown = printed(monkeypatch, "submit", str(path), "--endpoint", "/v1/embeddings")

    upload, create = server.asked
    assert (0, "") == (shown.code, shown.err)
    assert "batch_1" in shown.out
    assert b'{"a": 1}\n' in upload[2]
    assert b'filename="lines.jsonl"' in upload[2]
    assert {"input_file_id": "file-1", "endpoint": "/v1/embeddings", "completion_window": "24h"} == json.loads(
        create[2]
    )
    assert {"Bearer wg-key"} == server.keys


def test_batches_are_listed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers = {"/v1/batches": (200, {"data": [BATCH]})}
    shown = printed(monkeypatch, "list", "--limit", "7")

    assert ("GET", "/v1/batches?limit=7") == server.asked[0][:2]
    assert "batch_1  in_progress  /v1/embeddings" in shown.out
    assert [BATCH] == json.loads(printed(monkeypatch, "list", "--json").out)


def test_a_batch_is_shown_with_its_faults(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {**FAULT, "line": None, "message": "It is empty"}
    server.answers = {"/v1/batches/batch_1": (200, {**BATCH, "errors": {"object": "list", "data": [FAULT, whole]}})}
    shown = printed(monkeypatch, "show", "batch_1")

    assert shown.out.endswith("line 3: It is wrong\nIt is empty\n")
    assert 0 == shown.code


def test_the_events_of_a_batch_are_printed_in_order(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then come the faults of the file, and the reason of each line that failed, without control characters."""
    refused = {"error": {"message": "Too long\x1b[2J\u2028", "code": "context_length_exceeded"}}
    lines = [
        {"custom_id": "a", "response": {"status_code": 400, "body": refused}, "error": None},
        {"custom_id": "b", "response": None, "error": {"code": "batch_expired", "message": "The batch expired."}},
        {"custom_id": "c", "response": {"status_code": 502, "body": "<html>"}, "error": None},
    ]
    times = {"in_progress_at": 160, "expired_at": 86_500, "finalizing_at": 86_500, "cancelled_at": None}
    batch = {**BATCH, **times, "errors": {"object": "list", "data": [FAULT]}, "error_file_id": "file-9"}
    content = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
    server.answers = {"/v1/batches/batch_1": (200, batch), "/v1/files/file-9/content": (200, content)}

    assert (
        "1970-01-01 00:01:40Z created\n"
        "1970-01-01 00:02:40Z in_progress\n"
        "1970-01-02 00:01:40Z finalizing\n"
        "1970-01-02 00:01:40Z expired\n"
        "line 3: invalid_request: It is wrong\n"
        "a: context_length_exceeded: Too long [2J \n"
        "b: batch_expired: The batch expired.\n"
        "c: 502: no reason given\n"
    ) == printed(monkeypatch, "logs", "batch_1").out
    events = [json.loads(line) for line in printed(monkeypatch, "logs", "batch_1", "--json").out.split("\n")[:-1]]
    assert {"at": 100, "event": "created"} == events[0]
    assert ("line_failed", "c", 502) == (events[-1]["event"], events[-1]["custom_id"], events[-1]["status"])


def test_logs_of_a_batch_that_did_not_fail(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be read is reported."""
    server.answers = {
        "/v1/batches/batch_1": (200, BATCH),
        "/v1/batches/batch_2": (200, {**BATCH, "error_file_id": "f"}),
    }

    assert Printed(0, "1970-01-01 00:01:40Z created\n", "") == printed(monkeypatch, "logs", "batch_1")
    assert (1, "No.\n") == printed(monkeypatch, "logs", "batch_2")[::2]


def test_a_batch_is_cancelled(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers = {"/v1/batches/batch_1/cancel": (200, BATCH)}
    shown = printed(monkeypatch, "cancel", "batch_1", "--url", server.url)

    assert (0, "POST") == (shown.code, server.asked[0][0])


def test_failures_are_sentences(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server.answers = {
        "/v1/batches/batch_1": (400, {"error": {"message": "It is wrong"}}),
        "/v1/batches/batch_2": (200, b"<html>"),
    }

    assert Printed(2, "", "It is wrong.\n") == printed(monkeypatch, "show", "batch_1")
    assert Printed(1, "", "No.\n") == printed(monkeypatch, "show", "batch_3")
    assert "is not Warmgate: status 200" in printed(monkeypatch, "show", "batch_2").err
    assert (2, "") == printed(monkeypatch, "show", "../x")[:2]
    assert "cannot be read: No such file" in printed(monkeypatch, "submit", str(tmp_path / "none")).err
    assert "cannot be reached" in printed(monkeypatch, "list", "--url", "http://127.0.0.1:9").err


def test_a_key_and_a_gateway_are_required(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARMGATE_URL", "text")
    assert Printed(2, "", "WARMGATE_URL: the value must be a URL such as http://127.0.0.1:8081.\n") == printed(
        monkeypatch, "list"
    )
    monkeypatch.setenv("WARMGATE_API_KEY", "ü")
    assert 2 == printed(monkeypatch, "list").code
    monkeypatch.delenv("WARMGATE_API_KEY")
    assert Printed(2, "", "WARMGATE_API_KEY is not set. Set it to an API key of your team.\n") == printed(
        monkeypatch, "list"
    )

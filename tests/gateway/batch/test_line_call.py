import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest

from gateway.batch import line_call
from gateway.batch.contents import Piece
from gateway.batch.line_call import LineAnswer, answered, error_of, output_of, result_of
from gateway.batch.line_store import LineResult
from gateway.tenancy.ledger.entry import Entry
from tests.gateway.tenancy.ledger.examples import an_entry

CHAT = "/v1/chat/completions"
USAGE = (
    b'{"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4},'
    b'"completion_tokens_details":{"reasoning_tokens":1}}}'
)


class _App:
    """Answers every request with *body*, and keeps its scope and body."""

    def __init__(
        self,
        status: int,
        *body: bytes,
        headers: list[tuple[bytes, bytes]] | None = None,
        entry: Entry | None = None,
    ) -> None:
        self._status = status
        self._body = body
        self._headers = headers or []
        self._entries = [] if entry is None else [entry]
        self.scope: MutableMapping[str, Any] = {}
        self.heard = b""

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        self.scope = scope
        scope["entries"].extend(self._entries)
        self.heard = (await receive())["body"]
        disconnect = asyncio.ensure_future(receive())
        await send({"type": "http.response.start", "status": self._status, "headers": self._headers})
        for piece in self._body:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        assert not disconnect.done()
        disconnect.cancel()


async def asked(app: _App) -> LineAnswer:
    return await answered(app, CHAT, b"{}", secret="s", request_id="batch_1-0")


async def test_a_line_is_a_request_of_its_own() -> None:
    app = _App(200, b'{"a"', b":1}")

    assert LineAnswer(200, b'{"a":1}', None) == await asked(app)
    assert (CHAT, "POST", b"{}") == (app.scope["path"], app.scope["method"], app.heard)
    assert {(b"authorization", b"Bearer s"), (b"x-request-id", b"batch_1-0")} < set(app.scope["headers"])


async def test_a_line_has_the_ledger_entry_that_its_request_made() -> None:
    """The worker generated an answer that is too large too."""
    small, large = _App(200, b"{}", entry=an_entry()), _App(200, b"x" * 20, entry=an_entry())

    assert an_entry() == (await asked(small)).entry
    assert an_entry() == (await asked(large)).entry


async def test_the_time_to_wait_is_read_from_the_answer() -> None:
    assert 7.0 == (await asked(_App(503, b"", headers=[(b"retry-after", b"7")]))).retry_after_s
    assert (await asked(_App(503, b"", headers=[(b"retry-after", b"soon")]))).retry_after_s is None


async def test_an_answer_that_is_too_large_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_call, "MAX_ANSWER_BYTES", 10)
    answer = await asked(_App(200, b"x" * 8, b"x" * 8))

    assert (507, "answer_too_large") == (answer.status, json.loads(answer.body)["error"]["code"])


@pytest.mark.parametrize(
    ("status", "body", "is_transient", "is_fault"),
    [
        (200, b"{}", False, False),
        (400, b"{}", False, False),
        (503, b"", True, False),
        (429, b'{"error":{"code":"rate_limit_exceeded"}}', True, False),
        (429, b'{"error":{"code":"insufficient_quota"}}', False, False),
        (429, b"text", True, False),
        (429, b'{"error":"x"}', True, False),
        (502, b"", False, True),
        (504, b"", False, True),
    ],
)
def test_a_line_waits_or_is_tried_again(status: int, body: bytes, is_transient: bool, is_fault: bool) -> None:
    answer = LineAnswer(status, body, None)

    assert (is_transient, is_fault) == (answer.is_transient, answer.is_fault)


def test_outputs_are_in_openai_format() -> None:
    output = output_of(LineAnswer(200, b'{"a": 1}', None), custom_id="x", request_id="batch_1-0")

    assert output.endswith(b"\n")
    assert {
        "id": "batch_req_1-0",
        "custom_id": "x",
        "response": {"status_code": 200, "request_id": "batch_1-0", "body": {"a": 1}},
        "error": None,
    } == json.loads(output)


def test_an_answer_that_is_not_json_is_a_text() -> None:
    output = output_of(LineAnswer(200, b"a\nb", None), custom_id="x", request_id="batch_1-0")

    assert "a\nb" == json.loads(output)["response"]["body"]
    assert 1 == output.count(b"\n")


def test_an_answer_with_line_ends_stays_on_one_line() -> None:
    output = output_of(LineAnswer(200, b'{\n "a": 1\n}\n', None), custom_id="x", request_id="batch_1-0")

    assert 1 == output.count(b"\n")
    assert {"a": 1} == json.loads(output)["response"]["body"]


def test_a_line_without_an_answer_has_an_error() -> None:
    output = error_of("batch_expired", "Too late.", custom_id="x", request_id="batch_1-0")

    assert {"code": "batch_expired", "message": "Too late."} == json.loads(output)["error"]
    assert json.loads(output)["response"] is None


def test_results_have_the_usage_of_answers() -> None:
    found = result_of(LineAnswer(200, USAGE, None), CHAT, Piece("p", 1), length=2)
    plain = result_of(LineAnswer(200, b"{}", None), CHAT, Piece("p", 1), length=2)
    refused = result_of(LineAnswer(400, USAGE, None), CHAT, Piece("p", 1), length=2)

    assert (
        LineResult("p", 1, 2, ok=True, prompt_tokens=7, cached_tokens=4, completion_tokens=2, reasoning_tokens=1)
        == found
    )
    assert LineResult("p", 1, 2, ok=True) == plain
    assert LineResult("p", 1, 2, ok=False) == refused

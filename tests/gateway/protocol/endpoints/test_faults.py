import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.endpoints.faults import (
    ANTHROPIC,
    OPENAI,
    RESPONSES,
    ErrorShape,
    Fault,
    fault_in,
    fault_of,
    normalized,
    reason_in,
)
from gateway.protocol.errors import GatewayError, InvalidField, NoWorker, ReplyBroken, UpstreamTimeout

VLLM = (
    b'{"error":{"message":"The model `x` does not exist.","type":"NotFoundError","param":"model","code":404}}',
    404,
)
VLLM_UNAUTHORIZED = (b'{"error": "Unauthorized"}', 401)
SGLANG = (
    b'{"object":"error","message":"max_tokens is too large","type":"BadRequestError","param":null,"code":400}',
    400,
)
DYNAMO = (b'{"message":"Model not found: x","type":"Not Found","code":404}', 404)
FASTAPI = (b'{"detail":"Not Found"}', 404)
FASTAPI_INVALID = (
    b'{"detail":[{"type":"missing","loc":["body","messages",0,"role"],"msg":"Field required","input":{"content":"s"}},'
    b'{"type":"value_error","loc":["body"],"msg":"bad"},{"msg":"odd"},5]}',
    422,
)
ANTHROPIC_ERROR = (b'{"type":"error","error":{"type":"BadRequestError","message":"no"}}', 400)
NGINX = (b"<html>\r\n<head><title>404 Not Found</title></head></html>", 404)

keys = st.sampled_from(["error", "message", "type", "param", "code", "detail", "loc", "msg", "object"])
jsons = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "error", "body", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
)


class TestWhatAWorkerSays:
    @pytest.mark.parametrize(
        ("said", "fault"),
        [
            (VLLM, Fault(404, "The model `x` does not exist.", "NotFoundError", "model", 404)),
            (VLLM_UNAUTHORIZED, Fault(401, "Unauthorized")),
            (SGLANG, Fault(400, "max_tokens is too large", "BadRequestError", None, 400)),
            (DYNAMO, Fault(404, "Model not found: x", "Not Found", None, 404)),
            (FASTAPI, Fault(404, "Not Found")),
            (FASTAPI_INVALID, Fault(422, "messages.0.role: Field required; bad; odd", param="messages.0.role")),
            (ANTHROPIC_ERROR, Fault(400, "no", "BadRequestError")),
            (NGINX, Fault(404, "The worker answered 404 Not Found")),
            ((b"", 400), Fault(400, "The worker answered 400 Bad Request")),
            ((b"", 499), Fault(499, "The worker answered 499")),
            ((b"Method\nNot Allowed", 405), Fault(405, "Method Not Allowed")),
            ((b'{"error":{"code":5}}', 400), Fault(400, "The worker answered 400 Bad Request")),
            ((b'{"detail":[]}', 400), Fault(400, "The worker answered 400 Bad Request")),
            ((b'"Unauthorized"', 401), Fault(401, "Unauthorized")),
            ((b"\xff", 400), Fault(400, "The worker answered 400 Bad Request")),
            ((b"[" * 100_000, 400), Fault(400, "The worker answered 400 Bad Request")),
            ((b'{"message":', 400), Fault(400, "The worker answered 400 Bad Request")),
            ((b"[1]", 400), Fault(400, "The worker answered 400 Bad Request")),
            ((b'{"message":"m","type":5,"param":[],"code":{}}', 400), Fault(400, "m")),
        ],
    )
    def test_every_engine_is_understood(self, said: tuple[bytes, int], fault: Fault) -> None:
        """Message, type, param and code are kept where they are given; what was sent is never quoted back."""
        assert fault == fault_in(said[1], said[0])

    @pytest.mark.parametrize("body", [b'{"message":"' + b"x" * 10_000 + b'"}', b"x" * 2_000_000])
    def test_messages_are_bounded(self, body: bytes) -> None:
        """However much a worker says."""
        assert len(normalized(OPENAI, 400, body)) < 5_000


class TestReason:
    @pytest.mark.parametrize(
        ("body", "reason"),
        [(VLLM[0], "The model `x` does not exist."), (b'{"message":"a\\n b"}', "a b"), (NGINX[0], ""), (b"", "")],
    )
    def test_a_reason_is_one_line_or_nothing(self, body: bytes, reason: str) -> None:
        """For messages of ours that say which worker said it."""
        assert reason == reason_in(body)

    def test_a_reason_is_bounded(self) -> None:
        """It goes into logs of errors and answers."""
        assert "x" * 500 == reason_in(b'{"message":"' + b"x" * 600 + b'"}')


class TestNormalised:
    def test_a_type_that_anthropic_does_not_know_becomes_that_of_the_status(self) -> None:
        """vLLM puts the names of its own into Anthropic's envelope, and SDKs would not know them."""
        expected = b'{"type":"error","error":{"type":"invalid_request_error","message":"no"}}'
        body, status = ANTHROPIC_ERROR

        assert expected == normalized(ANTHROPIC, status, body)

    @pytest.mark.parametrize(
        ("shape", "body"),
        [
            (OPENAI, b'{"error":{"message":"no","type":"t","param":null,"code":"context_length_exceeded"}}'),
            (RESPONSES, b'{"error":{"message":"no","code":null}}'),
            (OPENAI, b' {"error" : {"message": "", "x": 1.50}}'),
            (ANTHROPIC, b'{"type":"error","error":{"type":"api_error","message":"b"},"request_id":"r"}'),
        ],
    )
    def test_what_has_the_right_shape_passes_byte_for_byte(self, shape: ErrorShape, body: bytes) -> None:
        """Unknown fields pass too."""
        assert body is normalized(shape, 400, body)

    @pytest.mark.parametrize(
        "body",
        [
            b'{"error":{"message":"This model\'s maximum context length is 8 tokens.","type":"B","code":400}}',
            b'{"error":{"message":"This model\'s maximum context length is 8 tokens.","type":"B"}}',
            b'{"object":"error","message":"It is longer than the model\'s context length.","code":400}',
        ],
    )
    def test_a_prompt_that_is_too_long_has_openais_code(self, body: bytes) -> None:
        """Clients tell it from other faults by the code, which engines do not give. A limit in tokens is another."""
        assert "context_length_exceeded" == json.loads(normalized(OPENAI, 400, body))["error"]["code"]
        assert None is json.loads(normalized(OPENAI, 429, body))["error"].get("code")

    @pytest.mark.parametrize("shape", [OPENAI, RESPONSES])
    @pytest.mark.parametrize("code", ["422", '"422"', "true", "12345678901234567890123", "1.5", "{}", "[]"])
    def test_a_code_that_is_no_name_becomes_null_and_all_else_stays(self, shape: ErrorShape, code: str) -> None:
        """Unknown fields and long messages stay; OpenAI's clients expect a text or null as the code."""
        error = {"message": "x" * 10_000, "type": None, "param": "n", "y": [1.5]}
        said = json.dumps({"error": {**error, "code": json.loads(code)}, "id": 7})

        assert {"error": {**error, "code": None}, "id": 7} == json.loads(normalized(shape, 422, said.encode()))

    @pytest.mark.parametrize("body", [VLLM[0], SGLANG[0], DYNAMO[0], VLLM[0].replace(b"404", b'"404"')])
    def test_an_event_has_no_number_as_its_code_either(self, body: bytes) -> None:
        """Chunks allow null; the Responses API requires a text."""
        fault = fault_in(404, body)

        assert OPENAI.event(fault, 0).endswith(b',"code":null}}\n\n')
        assert f'"code":"{fault.code}"'.encode() in RESPONSES.event(fault, 0)

    @pytest.mark.parametrize(
        ("said", "error"),
        [
            (
                SGLANG,
                {"message": "max_tokens is too large", "type": "BadRequestError", "param": None, "code": None},
            ),
            (DYNAMO, {"message": "Model not found: x", "type": "Not Found", "param": None, "code": None}),
            (
                VLLM_UNAUTHORIZED,
                {"message": "Unauthorized", "type": "authentication_error", "param": None, "code": None},
            ),
            ((b"", 429), {"message": "The worker answered 429 Too Many Requests", "type": "rate_limit_error"}),
            ((b"", 500), {"message": "The worker answered 500 Internal Server Error", "type": "server_error"}),
        ],
    )
    def test_flat_errors_are_nested_for_openais_clients(self, said: tuple[bytes, int], error: dict[str, Any]) -> None:
        """Their SDKs look under ``error``."""
        assert {"error": {"param": None, "code": None, **error}} == json.loads(normalized(OPENAI, said[1], said[0]))

    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (400, "invalid_request_error"),
            (401, "authentication_error"),
            (403, "permission_error"),
            (404, "not_found_error"),
            (413, "request_too_large"),
            (422, "invalid_request_error"),
            (429, "rate_limit_error"),
            (500, "api_error"),
            (503, "overloaded_error"),
            (504, "timeout_error"),
            (529, "overloaded_error"),
        ],
    )
    def test_anthropics_clients_get_anthropics_types(self, status: int, kind: str) -> None:
        """The status decides, not the type of the engine."""
        expected = json.loads(normalized(ANTHROPIC, status, SGLANG[0]))

        assert {"type": "error", "error": {"type": kind, "message": "max_tokens is too large"}} == expected

    @given(st.binary(max_size=100) | jsons.map(lambda value: json.dumps(value).encode()), st.integers(100, 999))
    def test_any_body_becomes_an_error(self, body: bytes, status: int) -> None:
        """There is always a message, in every shape."""
        for shape in (OPENAI, RESPONSES, ANTHROPIC):
            assert isinstance(json.loads(normalized(shape, status, body))["error"]["message"], str)

    @given(jsons.map(lambda value: json.dumps(value).encode()), st.integers(100, 999))
    def test_the_code_is_a_name_or_null(self, body: bytes, status: int) -> None:
        """The value of the worker does not matter."""
        error = json.loads(normalized(OPENAI, status, body))["error"]

        assert error.get("code") is None or isinstance(error["code"], str)


class TestTheGatewaysOwn:
    def test_openais_body_is_the_errors_own(self) -> None:
        """One truth: what `to_body` says."""
        error = InvalidField("'n' must be 1", param="n")

        assert error.to_body() == OPENAI.body(fault_of(error)) == RESPONSES.body(fault_of(error))

    def test_anthropics_body_may_name_the_request(self) -> None:
        """Anthropic's SDKs show it."""
        error = NoWorker("no worker is ready")

        assert (
            b'{"type":"error","error":{"type":"overloaded_error","message":"no worker is ready"},"request_id":"r1"}'
        ) == ANTHROPIC.body(fault_of(error, request_id="r1"))

    @pytest.mark.parametrize(
        ("shape", "error", "event"),
        [
            (
                OPENAI,
                ReplyBroken("cut"),
                b'data: {"error":{"message":"cut","type":"upstream_error","param":null,"code":"upstream_broken"}}\n\n',
            ),
            (
                RESPONSES,
                ReplyBroken("cut"),
                b'event: error\ndata: {"type":"error","code":"upstream_broken","message":"cut","param":null,'
                b'"sequence_number":7}\n\n',
            ),
            (
                ANTHROPIC,
                UpstreamTimeout("slow\nworker", phase="idle"),
                b'event: error\ndata: {"type":"error","error":{"type":"timeout_error","message":"slow\\nworker"}}\n\n',
            ),
        ],
    )
    def test_each_stream_ends_with_an_event_that_its_clients_raise(
        self, shape: ErrorShape, error: GatewayError, event: bytes
    ) -> None:
        """One event of one data line."""
        assert event == shape.event(fault_of(error), 7)

    def test_an_error_without_a_code_is_named_by_its_type(self) -> None:
        """The Responses API demands a code."""
        event = RESPONSES.event(fault_of(InvalidField("no", param="n")), 0)

        assert b'"code":"invalid_request_error","message":"no","param":"n"' in event

import msgspec
import pytest

from gateway.backends.bedrock.errors import fault, fault_of_error, fault_of_reply, public_id, redact
from gateway.backends.bedrock.refusals import Unsupported
from gateway.protocol.errors import ReplyBroken, UpstreamTimeout


@pytest.mark.parametrize(
    ("kind", "bedrock_status", "status", "type_", "code"),
    [
        ("ValidationException", 400, 400, "invalid_request_error", None),
        ("AccessDeniedException", 403, 502, "upstream_error", "upstream_auth"),
        ("UnrecognizedClientException", 403, 502, "upstream_error", "upstream_auth"),
        ("ExpiredTokenException", 403, 502, "upstream_error", "upstream_auth"),
        ("ExpiredToken", 400, 502, "upstream_error", "upstream_auth"),
        ("ResourceNotFoundException", 404, 503, "service_unavailable_error", "upstream_model_unavailable"),
        ("ModelTimeoutException", 408, 504, "upstream_error", "upstream_timeout"),
        ("ModelErrorException", 424, 502, "upstream_error", "upstream_error"),
        ("ThrottlingException", 429, 429, "rate_limit_error", "rate_limit_exceeded"),
        ("ModelNotReadyException", 429, 503, "service_unavailable_error", "upstream_unavailable"),
        ("ServiceQuotaExceededException", 400, 429, "rate_limit_error", "rate_limit_exceeded"),
        ("InternalServerException", 500, 500, "upstream_error", "upstream_error"),
        ("ServiceUnavailableException", 503, 503, "service_unavailable_error", "upstream_unavailable"),
        ("", 403, 502, "upstream_error", "upstream_auth"),
        ("", 404, 503, "service_unavailable_error", "upstream_model_unavailable"),
        ("", 429, 429, "rate_limit_error", "rate_limit_exceeded"),
        ("", 504, 504, "upstream_error", "upstream_timeout"),
        ("", 418, 502, "upstream_error", "upstream_error"),
        ("BrandNewException", 503, 503, "service_unavailable_error", "upstream_unavailable"),
    ],
)
def test_each_kind_has_its_status(kind: str, bedrock_status: int, status: int, type_: str, code: str | None) -> None:
    """The kind decides, the status of Bedrock where the kind is missing or unknown."""
    headers = {"x-amzn-errortype": f"{kind}:http://internal.amazon.com/coral/"} if kind else {}

    found = fault_of_reply(bedrock_status, headers, b'{"message":"m"}')

    assert (status, type_, code) == (found.status, found.type, found.code)


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        ("The provided model identifier is invalid.", 503, "upstream_model_unavailable"),
        (
            "Invocation of model ID x with on-demand throughput isn’t supported. Retry with an inference profile.",
            503,
            "upstream_model_unavailable",
        ),
        ("Input is too long for requested model.", 400, "context_length_exceeded"),
        ("prompt tokens (40000) exceed model maximum (32768)", 400, "context_length_exceeded"),
        ("input length and `max_tokens` exceed context limit: 1 + 2 > 2", 400, "context_length_exceeded"),
        ("This model doesn't support the stopSequences field. Remove stopSequences and try again.", 400, None),
    ],
)
def test_a_validation_fault_is_read_closer(message: str, status: int, code: str | None) -> None:
    """A wrong model id is the operator's fault, not the caller's; an overflow gets OpenAI's own code."""
    found = fault("ValidationException", message, status=400)

    assert (status, code) == (found.status, found.code)


def test_the_kind_may_stand_in_the_body() -> None:
    """Without the header, ``__type`` behind its ``#`` is the kind, and ``Message`` may be capitalised."""
    found = fault_of_reply(400, {}, b'{"__type":"com.amazon#ThrottlingException","Message":"slow down"}')

    assert (429, "Bedrock returned ThrottlingException: slow down") == (found.status, found.message)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"\xff", b'{"message":"\xff"}'])
def test_an_error_without_json_is_still_a_fault(body: bytes) -> None:
    """A proxy's page in between is reported by its status."""
    found = fault_of_reply(503, {}, body)

    assert (503, "Bedrock returned Http503: no message") == (found.status, found.message)


def test_the_body_is_openais() -> None:
    """The error object has the four keys that SDKs read."""
    body = msgspec.json.decode(fault("ThrottlingException", "slow down").to_body())

    assert {
        "error": {
            "message": "Bedrock returned ThrottlingException: slow down",
            "type": "rate_limit_error",
            "param": None,
            "code": "rate_limit_exceeded",
        }
    } == body


def test_arns_accounts_and_keys_are_redacted() -> None:
    """What names the operator's account does not leave the gateway; other numbers stay."""
    text = (
        "User: arn:aws:sts::123456789012:assumed-role/gw/i-0abc may not use "
        "arn:aws-us-gov:bedrock:us-gov-west-1::foundation-model/x, account 123456789012, key ASIAIOSFODNN7EXAMPLE, "
        "1234567890123 tokens"
    )

    assert ("User: [arn] may not use [arn], account [account], key [key], 1234567890123 tokens") == redact(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no route to https://vpce-1.bedrock-runtime.us-east-1.vpce.amazonaws.com/model/x", "no route to [address]"),
        ("bedrock-runtime.eu-west-1.amazonaws.com is away", "[address] is away"),
        ("http://proxy:3128, 10.0.12.7:8443 and ip-10-0-0-1.ec2.internal", "[address], [address] and [address]"),
        ("version 1.2.3 of qwen.qwen3-32b-v1:0 at 0.7", "version 1.2.3 of qwen.qwen3-32b-v1:0 at 0.7"),
    ],
)
def test_addresses_are_redacted(text: str, shown: str) -> None:
    assert shown == redact(text)


def test_a_public_id_has_neither_region_nor_account() -> None:
    """It stands in response headers and in errors."""
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"

    assert "application-inference-profile/abc" == public_id(arn)
    assert "qwen.qwen3-32b-v1:0" == public_id("qwen.qwen3-32b-v1:0")


def test_an_authentication_fault_quotes_nothing() -> None:
    """AWS prints the signed headers, session token included, into such messages."""
    message = "The Canonical String should have been 'POST\n...\nx-amz-security-token:IQoJb3JpZ2luX2Vj'"

    found = fault("InvalidSignatureException", message, status=403)

    assert "Bedrock rejected the gateway's credentials (InvalidSignatureException)" == found.message


def test_a_long_message_is_cut() -> None:
    """An error does not carry a prompt's worth of text along."""
    assert len(fault("ValidationException", "x" * 10_000).message) < 600


@pytest.mark.parametrize(
    ("headers", "retry_after_s"),
    [
        ({"x-amz-retry-after": "1500"}, 2),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({}, None),
    ],
)
def test_when_to_retry_is_kept(headers: dict[str, str], retry_after_s: int | None) -> None:
    """AWS's header counts milliseconds, the standard one seconds; whole seconds come out, rounded up."""
    assert retry_after_s == fault_of_reply(429, headers, b"").retry_after_s


def test_inside_a_stream_a_fault_is_an_exception() -> None:
    """Once the status is out, a fault breaks the reply; a model's own timeout stays a timeout."""
    assert isinstance(fault("throttlingException", "slow down").to_error(), ReplyBroken)
    assert isinstance(fault("modelTimeoutException", "late").to_error(), UpstreamTimeout)


@pytest.mark.parametrize(
    ("kind", "message", "unsupported"),
    [
        (
            "ValidationException",
            "This model doesn't support the stopSequences field. Remove stopSequences and try again.",
            Unsupported("stopSequences"),
        ),
        (
            "validationException",
            "This model doesn’t support the toolConfig.toolChoice.any field.",
            Unsupported("toolConfig.toolChoice.any"),
        ),
        ("ValidationException", "`temperature` is deprecated for this model.", Unsupported("temperature")),
        (
            "ValidationException",
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
            Unsupported("top_p", "temperature"),
        ),
        (
            "ValidationException",
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".',
            Unsupported("thinking.type.enabled"),
        ),
        ("Http400", "Unsupported parameter: 'top_p' is not supported with this model.", Unsupported("top_p")),
        ("ValidationException", "#: extraneous key [top_k] is not permitted", Unsupported("top_k")),
        ("ValidationException", "top_k: Extra inputs are not permitted", Unsupported("top_k")),
        ("ValidationException", "It is not supported by this model.", None),
        ("ValidationException", "The model is not in the mood.", None),
        ("ThrottlingException", "This model doesn't support the stopSequences field.", None),
        ("ValidationException", f"This model doesn't support the {'x' * 80} field.", None),
    ],
)
def test_a_field_that_the_model_does_not_know_is_named(
    kind: str, message: str, unsupported: Unsupported | None
) -> None:
    """The wording is regular; only a fault in the request has such a field."""
    assert unsupported == fault(kind, message, status=400).unsupported


@pytest.mark.parametrize(
    ("kind", "expired"),
    [("ExpiredTokenException", True), ("ExpiredToken", True), ("AccessDeniedException", False), ("", False)],
)
def test_credentials_that_expired_are_reported_from_wrong_ones(kind: str, *, expired: bool) -> None:
    """For the former there is a remedy."""
    assert expired == fault(kind, "no", status=403).means_expired


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"message":"too much","type":"rate_limit_error","code":null}}',
        b'{"type":"error","error":{"type":"rate_limit_error","message":"too much"}}',
    ],
)
def test_an_error_of_openais_shape_is_read(body: bytes) -> None:
    """Where there is no kind, the status decides."""
    found = fault_of_reply(429, {}, body)

    assert (429, "Bedrock returned Http429: too much") == (found.status, found.message)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"type": "rate_limit_error"}, 429),
        ({"type": "invalid_request_error", "message": "prompt is too long"}, 400),
        ({"type": "overloaded_error"}, 503),
        ({"code": 429}, 429),
        ({"code": "context_length_exceeded"}, 502),
        ({"code": 99}, 502),
        ({"type": "modelStreamErrorException"}, 502),
        ({}, 502),
    ],
)
def test_an_error_inside_a_stream_has_a_status_of_its_own(error: dict[str, object], status: int) -> None:
    """Its type says so, or its code, if that is one."""
    assert status == fault_of_error(error).status

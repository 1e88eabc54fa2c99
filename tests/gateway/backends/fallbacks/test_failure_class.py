import pytest

from gateway.backends.bedrock.errors import fault
from gateway.backends.fallbacks.failure_class import FailureClass, classify, nothing_was_done
from gateway.protocol.errors import ConnectFailed, ReplyBroken, UpstreamError, UpstreamRefused, UpstreamTimeout
from gateway.proxy.attempt import refusal
from tests.fakes.backends import JSON, ScriptedReply


async def refused(kind: str, message: str, status: int) -> UpstreamError:
    """Return an error of Bedrock as the backend raises it."""
    said = fault(kind, message, status=status)
    return await refusal("bedrock:m", ScriptedReply(said.status, JSON, [said.to_body()]))


@pytest.mark.parametrize(
    ("kind", "message", "status", "of"),
    [
        ("AccessDeniedException", "You don't have access to the model.", 403, "shut"),
        ("UnrecognizedClientException", "The security token is invalid.", 403, "shut"),
        ("ExpiredTokenException", "The security token is expired.", 403, "shut"),
        ("ResourceNotFoundException", "This model is marked by provider as Legacy", 404, "shut"),
        ("ValidationException", "The provided model identifier is invalid.", 400, "shut"),
        ("ValidationException", "on-demand throughput isn't supported", 400, "shut"),
        ("ThrottlingException", "Too many tokens per day, please wait", 429, "spent for today"),
        ("ThrottlingException", "Too many tokens, please wait before trying again.", 429, "throttled"),
        ("ServiceQuotaExceededException", "Your request exceeds the quota.", 400, "throttled"),
        ("ModelTimeoutException", "The model took too long.", 408, "failed"),
        ("InternalServerException", "oh", 500, "failed"),
        ("ServiceUnavailableException", "Bedrock is busy", 503, "failed"),
    ],
)
async def test_what_bedrock_says_reports_for_how_long(kind: str, message: str, status: int, of: str) -> None:
    assert of == classify(await refused(kind, message, status)).kind


@pytest.mark.parametrize("status", [401, 403])
async def test_an_endpoint_that_refuses_the_key_is_shut(status: int) -> None:
    reply = ScriptedReply(status, JSON, [b'{"error":{"message":"Incorrect API key provided"}}'])

    assert FailureClass("shut") == classify(await refusal("openai:llm.example.com", reply))


@pytest.mark.parametrize(
    "message",
    [
        "No AWS credentials for Bedrock were found on the gateway's host",
        "The gateway could not load or refresh its AWS credentials (TokenRetrievalError)",
    ],
)
def test_missing_aws_credentials_are_shut(message: str) -> None:
    """A request fails until the operator provides credentials, so the breaker stays open for long."""
    assert FailureClass("shut") == classify(ConnectFailed(message))


async def test_an_account_without_money_is_spent_for_today() -> None:
    body = b'{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}'

    assert "spent for today" == classify(await refusal("openai:llm", ScriptedReply(429, JSON, [body]))).kind


def test_it_passes_on_when_to_come_back() -> None:
    assert FailureClass("throttled", 7.0) == classify(UpstreamRefused("slow down", status=429, retry_after_s=7.0))


@pytest.mark.parametrize(
    ("error", "nothing"),
    [
        (ConnectFailed("refused"), True),
        (UpstreamRefused("busy", status=503), True),
        (UpstreamTimeout("no connection", phase="connect"), True),
        (UpstreamTimeout("silent", phase="first_byte"), False),
        (ReplyBroken("cut"), False),
    ],
)
def test_whether_something_has_to_be_paid_for(error: UpstreamError, nothing: bool) -> None:
    assert nothing == nothing_was_done(error)
    assert "failed" == classify(error).kind

import asyncio
from typing import Any

import httpx
import pytest

from gateway.backends.bedrock.aws import CredentialChain, SigV4Signer
from gateway.backends.bedrock.endpoint import (
    BedrockEndpoint,
    BedrockTimeouts,
    deadline,
    model_segment,
    translated_errors,
)
from gateway.protocol.errors import ConnectFailed, ReplyBroken, UpstreamTimeout
from tests.fakes.bedrock import REGION, Cut, FakeBedrock, KeyHolder, Silent

CONVERSE = "/model/qwen.qwen3-32b-v1%3A0/converse"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": [{"text": "hello"}]}]}


def endpoint(client: httpx.AsyncClient, **changes: Any) -> BedrockEndpoint:
    signer = SigV4Signer(region=REGION, credentials=CredentialChain(new_session=KeyHolder))
    return BedrockEndpoint(
        **{
            "region": REGION,
            "client": client,
            "signer": signer,
            "endpoint_url": None,
            "timeouts": BedrockTimeouts(),
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("region", "endpoint_url", "url"),
    [
        ("us-east-1", None, "https://bedrock-runtime.us-east-1.amazonaws.com/model/qwen.qwen3-32b-v1%3A0/converse"),
        (
            "us-gov-west-1",
            None,
            "https://bedrock-runtime.us-gov-west-1.amazonaws.com/model/qwen.qwen3-32b-v1%3A0/converse",
        ),
        (
            "cn-north-1",
            None,
            "https://bedrock-runtime.cn-north-1.amazonaws.com.cn/model/qwen.qwen3-32b-v1%3A0/converse",
        ),
        ("us-east-1", "http://127.0.0.1:9/", "http://127.0.0.1:9/model/qwen.qwen3-32b-v1%3A0/converse"),
        (
            "us-east-1",
            "https://vpce.example/bedrock",
            "https://vpce.example/bedrock/model/qwen.qwen3-32b-v1%3A0/converse",
        ),
    ],
)
async def test_the_address_is_the_regions_or_the_one_given(region: str, endpoint_url: str | None, url: str) -> None:
    """A given endpoint replaces the region's host."""
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        return httpx.Response(200)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        await endpoint(client, region=region, endpoint_url=endpoint_url).post(CONVERSE, HELLO)

    assert [url] == seen


@pytest.mark.parametrize(
    "model_id",
    [
        "qwen.qwen3-32b-v1:0",
        "us.meta.llama3-3-70b-instruct-v1:0",
        "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc",
    ],
)
@pytest.mark.parametrize("operation", ["converse", "converse-stream"])
async def test_a_model_id_is_encoded_once(
    fake: FakeBedrock, client: httpx.AsyncClient, model_id: str, operation: Any
) -> None:
    """On the wire the id is one segment, percent-encoded exactly once, and the signature fits it."""
    path = f"/model/{model_segment(model_id)}/{operation}"
    response = await endpoint(client, endpoint_url=fake.base_url).post(path, HELLO)
    await response.aclose()

    assert (200, []) == (response.status_code, fake.rejections)
    assert [(operation, model_id)] == [(request.operation, request.model_id) for request in fake.requests]


async def test_a_large_body_is_signed_too(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """A body big enough to be signed in a thread is accepted like any other."""
    body = {"messages": [{"role": "user", "content": [{"text": "x" * 300_000}]}]}

    response = await endpoint(client, endpoint_url=fake.base_url).post(CONVERSE, body)
    await response.aclose()

    assert (200, []) == (response.status_code, fake.rejections)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("region", "us-east-1.evil.example/"),
        ("region", ""),
        ("endpoint_url", "bedrock.example"),
        ("endpoint_url", "ftp://bedrock.example"),
        ("endpoint_url", "https://user:pw@bedrock.example"),
        ("endpoint_url", "https://bedrock.example?x=1"),
        ("endpoint_url", ""),
    ],
)
async def test_what_makes_no_address_stops_the_start(client: httpx.AsyncClient, field: str, value: str) -> None:
    """A bad setting is found when the backend is built, not at the first call."""
    with pytest.raises(ValueError, match="Bedrock"):
        endpoint(client, **{field: value})


@pytest.mark.parametrize("model_id", ["", "qwen.qwen3-32b-v1%3A0"])
def test_what_is_no_model_id_stops_the_start(model_id: str) -> None:
    """One that is encoded already would be encoded twice."""
    with pytest.raises(ValueError, match="model id"):
        model_segment(model_id)


async def test_a_full_pool_is_a_connect_timeout(fake: FakeBedrock) -> None:
    """Waiting for a connection is bounded by the connect timeout."""
    fake.next(Silent())
    limits = httpx.Limits(max_connections=1)
    async with httpx.AsyncClient(trust_env=False, limits=limits) as client:
        holder = asyncio.create_task(endpoint(client, endpoint_url=fake.base_url).post(CONVERSE, HELLO))
        assert await fake.was_called(within_s=20)

        impatient = endpoint(client, endpoint_url=fake.base_url, timeouts=BedrockTimeouts(connect_s=0.05))
        with pytest.raises(UpstreamTimeout) as caught:
            await impatient.post(CONVERSE, HELLO)
        holder.cancel()
        await asyncio.wait([holder])

    assert "connect" == caught.value.phase


async def test_a_reset_before_the_head_breaks_the_reply(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """The request may have been taken, so this is no `ConnectFailed`."""
    fake.next(Silent(Cut.ABORT))

    with pytest.raises(ReplyBroken):
        await endpoint(client, endpoint_url=fake.base_url).post(CONVERSE, HELLO)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (httpx.ConnectError("refused"), ConnectFailed),
        (httpx.ProxyError("refused"), ConnectFailed),
        (httpx.ReadError("reset"), ReplyBroken),
        (httpx.RemoteProtocolError("cut"), ReplyBroken),
        (httpx.DecodingError("gzip"), ReplyBroken),
    ],
)
def test_an_error_of_the_client_is_one_of_ours(error: httpx.RequestError, expected: type[Exception]) -> None:
    """Each failure of the HTTP client has its class, and keeps its cause."""
    with pytest.raises(expected) as caught, translated_errors():
        raise error

    assert error is caught.value.__cause__


@pytest.mark.parametrize(
    ("error", "phase"),
    [
        (httpx.ConnectTimeout("late"), "connect"),
        (httpx.PoolTimeout("late"), "connect"),
        (httpx.WriteTimeout("late"), "first_byte"),
    ],
)
def test_a_timeout_of_the_client_has_its_phase(error: httpx.TimeoutException, phase: str) -> None:
    """Connecting and sending are reported apart."""
    with pytest.raises(UpstreamTimeout) as caught, translated_errors():
        raise error

    assert phase == caught.value.phase


async def test_a_deadline_names_its_phase() -> None:
    """What is inside is cancelled; None waits for ever."""
    with pytest.raises(UpstreamTimeout) as caught:
        async with deadline(0, phase="idle"):
            await asyncio.sleep(60)
    async with deadline(None, phase="idle"):
        await asyncio.sleep(0)

    assert "idle" == caught.value.phase

"""The stand-in for Bedrock is believed because AWS's own client believes it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import botocore.session
import openai
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError

from tests.fakes.bedrock import (
    ENVIRONMENT,
    FOREIGN_ENVIRONMENT,
    MESSAGE_START,
    REGION,
    FakeBedrock,
    Refuses,
    Says,
    Streams,
    Use,
    encode_frame,
    error,
    event,
    exception,
    text_delta,
)

MODEL = "qwen.qwen3-32b-v1:0"
HELLO = [{"role": "user", "content": [{"text": "hello"}]}]
CALL = {"toolUse": {"toolUseId": "a", "name": "now", "input": {}}}
RESULT = {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "noon"}]}}]}
TOOLS = {"tools": [{"toolSpec": {"name": "now", "inputSchema": {"json": {"type": "object"}}}}]}


@pytest.fixture(autouse=True)
def aws_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FOREIGN_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
async def fake() -> AsyncIterator[FakeBedrock]:
    async with FakeBedrock().serving() as fake:
        yield fake


def read_stream(client: Any) -> list[Any]:
    with contextlib.closing(client.converse_stream(modelId=MODEL, messages=HELLO)["stream"]) as stream:
        return list(stream)


async def with_client(fake: FakeBedrock, use: Callable[[Any], Any]) -> Any:
    """Run *use* in a thread with AWS's own client for *fake*."""

    def run() -> Any:
        config = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=5)
        session = botocore.session.get_session()
        client = session.create_client("bedrock-runtime", region_name=REGION, endpoint_url=fake.base_url, config=config)
        try:
            return use(client)
        finally:
            client.close()

    return await asyncio.to_thread(run)


def test_a_frame_is_encoded_as_aws_encodes_it() -> None:
    """Event, exception and error frames equal, byte for byte, those that AWS's own encoder in JavaScript makes."""
    start = event("messageStart", {"role": "assistant"})
    throttled = exception("throttlingException", "slow down")
    failed = error("InternalFailure", "boom")

    assert (
        "000000760000005296d5fade0b3a6576656e742d7479706507000c6d65737361676553746172740d3a636f6e74656e742d74797065"
        "0700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d747970650700056576656e747b22726f6c65223a22617373"
        "697374616e74227d6fa8c599" == start.hex()
    )
    assert (
        "0000008800000061de0175f40f3a657863657074696f6e2d747970650700137468726f74746c696e67457863657074696f6e0d3a63"
        "6f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d74797065070009657863657074"
        "696f6e7b226d657373616765223a22736c6f7720646f776e227d832ee072" == throttled.hex()
    )
    assert (
        "0000005a0000004a8188a08d0d3a6d6573736167652d747970650700056572726f720b3a6572726f722d636f646507000f496e7465"
        "726e616c4661696c7572650e3a6572726f722d6d657373616765070004626f6f6dd78e0703" == failed.hex()
    )
    assert 16 == len(encode_frame({}, b""))


async def test_awss_own_client_completes_converse(fake: FakeBedrock) -> None:
    """botocore signs, sends and reads a Converse call without a complaint from either side."""
    answer = await with_client(fake, lambda client: client.converse(modelId=MODEL, messages=HELLO))

    assert [] == fake.rejections
    assert [{"text": "Hello world"}] == answer["output"]["message"]["content"]
    assert "end_turn" == answer["stopReason"]
    assert {"inputTokens": 11, "outputTokens": 5, "totalTokens": 16} == answer["usage"]
    assert [("converse", MODEL, {"messages": HELLO})] == [(r.operation, r.model_id, r.body) for r in fake.requests]


async def test_awss_own_client_reads_a_stream(fake: FakeBedrock) -> None:
    """botocore parses every event of ConverseStream: empty block, reasoning, text, stop and usage."""
    fake.next(Says(("Hello", " world"), reasoning="hm", empty_block_first=True))

    events = await with_client(fake, read_stream)

    assert [] == fake.rejections
    assert [
        {"text": ""},
        {"reasoningContent": {"text": "hm"}},
        {"text": "Hello"},
        {"text": " world"},
    ] == [event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event]
    assert {"stopReason": "end_turn"} == events[-2]["messageStop"]
    assert 16 == events[-1]["metadata"]["usage"]["totalTokens"]


async def test_awss_own_client_reads_tool_calls(fake: FakeBedrock) -> None:
    """Whole and streamed, with input and without."""
    uses = (Use("look_up", {"city": "Zürich"}), Use("now", id="tooluse_2"))
    fake.next(*[Says((), uses=uses, stop_reason="tool_use")] * 2)

    whole = await with_client(fake, lambda client: client.converse(modelId=MODEL, messages=HELLO))
    events = await with_client(fake, read_stream)

    assert [("tooluse_1", "look_up", {"city": "Zürich"}), ("tooluse_2", "now", {})] == [
        (block["toolUse"]["toolUseId"], block["toolUse"]["name"], block["toolUse"]["input"])
        for block in whole["output"]["message"]["content"]
    ]
    assert ["look_up", "now"] == [
        event["contentBlockStart"]["start"]["toolUse"]["name"] for event in events if "contentBlockStart" in event
    ]
    deltas = [event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event]
    assert {"city": "Zürich"} == json.loads("".join(delta["toolUse"]["input"] for delta in deltas))
    assert [] == fake.rejections


@pytest.mark.parametrize("streams", [False, True])
async def test_openais_own_client_completes_a_chat(*, streams: bool) -> None:
    """On the OpenAI-compatible path, with a Bedrock API key."""
    async with FakeBedrock(Says(reasoning="hm"), bearer="key").serving() as fake:
        async with openai.AsyncOpenAI(api_key="key", base_url=f"{fake.base_url}/openai/v1", max_retries=0) as client:
            if streams:
                chunks = [
                    chunk
                    async for chunk in await client.chat.completions.create(
                        model=MODEL, messages=[{"role": "user", "content": "hello"}], stream=True
                    )
                ]
                text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
            else:
                answer = await client.chat.completions.create(
                    model=MODEL, messages=[{"role": "user", "content": "hello"}]
                )
                text = answer.choices[0].message.content or ""

        assert "<reasoning>hm</reasoning>Hello world" == text
        assert [] == fake.rejections


async def test_awss_own_client_addresses_an_arn(fake: FakeBedrock) -> None:
    """The slashes and colons of an ARN come percent-encoded once, and are read as they were meant."""
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"

    await with_client(fake, lambda client: client.converse(modelId=arn, messages=HELLO))

    assert [] == fake.rejections
    assert [arn] == [request.model_id for request in fake.requests]


async def test_awss_own_client_understands_a_refusal(fake: FakeBedrock) -> None:
    """An HTTP error carries kind and message where botocore looks for them."""
    fake.next(Refuses(429, "ThrottlingException", "slow down"))

    with pytest.raises(ClientError) as caught:
        await with_client(fake, lambda client: client.converse(modelId=MODEL, messages=HELLO))

    assert {"Code": "ThrottlingException", "Message": "slow down"} == caught.value.response["Error"]
    assert 429 == caught.value.response["ResponseMetadata"]["HTTPStatusCode"]


async def test_awss_own_client_understands_an_exception_in_a_stream(fake: FakeBedrock) -> None:
    """An exception frame ends botocore's stream with an error of that kind."""
    fake.next(Streams((MESSAGE_START, text_delta("Hel"), exception("throttlingException", "slow down"))))

    with pytest.raises(EventStreamError, match=r"throttlingException.*slow down"):
        await with_client(fake, read_stream)


async def test_a_wrong_key_is_refused(fake: FakeBedrock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signature is checked: another secret key does not pass."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")

    with pytest.raises(ClientError, match="InvalidSignatureException"):
        await with_client(fake, lambda client: client.converse(modelId=MODEL, messages=HELLO))

    assert ["the signature does not match"] == fake.rejections


@pytest.mark.parametrize(
    ("request_body", "complaint"),
    [
        ({"messages": [{"role": "tool", "content": [{"text": "x"}]}]}, "not one of the values allowed"),
        ({"messages": [{"role": "assistant", "content": [{"text": "x"}]}]}, "start and end with a user message"),
        ({"messages": HELLO + HELLO}, "Roles must alternate"),
        ({"messages": [{"role": "user", "content": [{"text": " "}]}]}, "blank"),
        ({"messages": HELLO, "inferenceConfig": {"temperature": 1.7}}, "temperature must be between 0 and 1"),
        (
            {"messages": [*HELLO, {"role": "assistant", "content": [CALL]}, *HELLO], "toolConfig": TOOLS},
            "Expected toolResult blocks",
        ),
        ({"messages": [*HELLO, {"role": "assistant", "content": [CALL]}, RESULT]}, "toolConfig field must be defined"),
        ({"messages": HELLO, "requestMetadata": {"k": "x" * 257}}, "too long"),
    ],
)
async def test_a_wrong_body_is_refused(fake: FakeBedrock, request_body: dict[str, Any], complaint: str) -> None:
    """What botocore's validator lets pass, and real models refuse, is refused here."""
    with pytest.raises(ClientError, match="ValidationException") as caught:
        await with_client(fake, lambda client: client.converse(modelId=MODEL, **request_body))

    assert caught.match(complaint)
    assert [] == fake.requests

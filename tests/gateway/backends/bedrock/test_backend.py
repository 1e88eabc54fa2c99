import asyncio
from typing import Any

import httpx
import msgspec
import pytest

from gateway.backends.backend import Call, Reply
from gateway.backends.bedrock.aws import CredentialChain, SigV4Signer
from gateway.backends.bedrock.backend import BedrockBackend
from gateway.backends.bedrock.endpoint import Timeouts
from gateway.errors import ClientError, ConnectFailed, InvalidField, ReplyBroken, UpstreamTimeout
from tests.fakes.bedrock import (
    CORAL,
    MESSAGE_START,
    REGION,
    Cut,
    FakeBedrock,
    KeyHolder,
    Refuses,
    Says,
    Scenario,
    Silent,
    Streams,
    error,
    event,
    exception,
    text_delta,
)

STOP = event("messageStop", {"stopReason": "end_turn"})


def backend(fake: FakeBedrock, client: httpx.AsyncClient, **changes: Any) -> BedrockBackend:
    signer = SigV4Signer(region=REGION, credentials=CredentialChain(new_session=KeyHolder))
    return BedrockBackend(
        **{
            "model_id": "qwen.qwen3-32b-v1:0",
            "region": REGION,
            "client": client,
            "signer": signer,
            "endpoint_url": fake.base_url,
            **changes,
        }
    )


def chat(*, streams: bool = False, **fields: Any) -> Call:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "stream": streams, **fields}
    return Call(
        method=b"POST",
        path=b"/v1/chat/completions",
        headers=[(b"content-type", b"application/json"), (b"x-client", b"secret")],
        body=msgspec.json.encode(body),
        streams=streams,
        model="tiny",
    )


async def read_all(reply: Reply) -> bytes:
    data = b""
    try:
        while piece := await reply.read():
            data += piece
    finally:
        await reply.aclose()
    return data


def text(stream: bytes) -> str:
    """What a caller would show of a stream."""
    chunks = [msgspec.json.decode(e.removeprefix(b"data: ")) for e in stream.split(b"\n\n")[:-1] if b"[DONE]" not in e]
    return "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])


def busy(client: httpx.AsyncClient) -> list[Any]:
    """Connections of the pool that are neither idle nor closed: what a leak would leave.

    httpcore 1.0.9 may keep the record of one that was cancelled before it was opened; that one has no socket.
    """
    pool = client._transport._pool  # type: ignore[attr-defined]  # httpx has no public view of it
    opened = [connection for connection in pool.connections if connection._connection is not None]
    return [connection for connection in opened if not connection.is_idle() and not connection.is_closed()]


# --- answers


async def test_an_answer_carries_text_usage_and_awss_request_id(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """A call that does not stream becomes a chat completion under the caller's model name."""
    reply = await backend(fake, client).send(chat())
    completion = msgspec.json.decode(await read_all(reply))

    assert (200, "tiny") == (reply.status, completion["model"])
    assert completion["id"].startswith("chatcmpl-")
    assert "Hello world" == completion["choices"][0]["message"]["content"]
    assert (11, 5, 16) == tuple(
        completion["usage"][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    )
    assert b"0d5f0e4c-8b1f-4a53-9d2f-1c2f4e6a7b80" == dict(reply.headers)[b"x-amzn-requestid"]
    assert b"application/json" == dict(reply.headers)[b"content-type"]
    assert [] == fake.rejections


async def test_a_stream_carries_text_and_usage(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """With ``include_usage`` the chunk before ``[DONE]`` has the counts."""
    reply = await backend(fake, client).send(chat(streams=True, stream_options={"include_usage": True}))
    data = await read_all(reply)

    *_, usage, done, after = data.split(b"\n\n")
    assert (200, b"text/event-stream") == (reply.status, dict(reply.headers)[b"content-type"])
    assert "Hello world" == text(data)
    assert {"completion_tokens": 5, "prompt_tokens": 11, "total_tokens": 16} == {
        name: count
        for name, count in msgspec.json.decode(usage.removeprefix(b"data: "))["usage"].items()
        if isinstance(count, int)
    }
    assert (b"data: [DONE]", b"") == (done, after)
    assert [] == fake.rejections


@pytest.mark.parametrize("streams", [False, True])
async def test_reasoning_has_its_own_field(fake: FakeBedrock, client: httpx.AsyncClient, *, streams: bool) -> None:
    """Thoughts never mix with the answer, and go under the name that is set."""
    fake.next(Says(("Four.",), reasoning="2 and 2", empty_block_first=True))

    data = await read_all(await backend(fake, client, reasoning_field="reasoning").send(chat(streams=streams)))

    assert b'"reasoning":"2 and 2"' in data
    assert b'"content":"Four."' in data


async def test_a_stream_cut_into_single_bytes_is_read(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """The borders of network reads mean nothing."""
    data = MESSAGE_START + text_delta("Grüße") + STOP
    fake.next(Streams(tuple(bytes([byte]) for byte in data)))

    assert "Grüße" == text(await read_all(await backend(fake, client).send(chat(streams=True))))


@pytest.mark.parametrize("streams", [False, True])
async def test_only_the_translated_body_goes_to_aws(
    fake: FakeBedrock, client: httpx.AsyncClient, *, streams: bool
) -> None:
    """The caller's headers stay here, and what Converse gets is valid in AWS's own eyes."""
    call = chat(streams=streams, max_tokens=7, temperature=1.5, seed=1)

    await read_all(await backend(fake, client).send(call))

    (request,) = fake.requests
    assert ("converse-stream" if streams else "converse") == request.operation
    assert {
        "messages": [{"role": "user", "content": [{"text": "hello"}]}],
        "inferenceConfig": {"maxTokens": 7, "temperature": 1.0},
    } == request.body
    assert "x-client" not in request.headers
    assert "user-agent" in request.headers


@pytest.mark.parametrize("streams", [False, True])
async def test_dropped_fields_are_listed(fake: FakeBedrock, client: httpx.AsyncClient, *, streams: bool) -> None:
    """The caller can see which of the fields had no effect; a name unfit for a header is ``other``."""
    call = chat(streams=streams, seed=1, min_p=0.1, **{"a\r\nset-cookie: x": 1})

    reply = await backend(fake, client).send(call)
    await reply.aclose()

    assert b"min_p,seed,other" == dict(reply.headers)[b"x-warmgate-dropped-fields"]


async def test_without_dropped_fields_there_is_no_such_header(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """The header only appears when it says something."""
    reply = await backend(fake, client).send(chat())

    assert b"x-warmgate-dropped-fields" not in dict(reply.headers)


async def test_the_id_names_the_model_without_the_account(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """The id goes out in a header, so the account number of an ARN is not part of it."""
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"

    assert "bedrock:qwen.qwen3-32b-v1:0" == backend(fake, client).id
    assert (
        "bedrock:arn:aws:bedrock:us-east-1:[account]:application-inference-profile/abc"
        == backend(fake, client, model_id=arn).id
    )


# --- what cannot be served


async def test_other_routes_are_refused(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """There is no raw-prompt mode in Converse; nothing is sent."""
    call = Call(b"POST", b"/v1/completions", [], b'{"prompt":"x"}', streams=False, model="tiny")

    with pytest.raises(ClientError, match="chat completions only"):
        await backend(fake, client).send(call)
    assert [] == fake.requests


async def test_a_field_that_cannot_be_served_is_refused(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """Rather than an answer that is silently wrong, the field is named; nothing is sent."""
    with pytest.raises(InvalidField) as caught:
        await backend(fake, client).send(chat(n=2))

    assert "n" == caught.value.param
    assert [] == fake.requests


# --- refusals


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [
        (400, "ValidationException", (400, None)),
        (403, "AccessDeniedException", (502, "upstream_auth")),
        (404, "ResourceNotFoundException", (503, "upstream_model_unavailable")),
        (408, "ModelTimeoutException", (504, "upstream_timeout")),
        (424, "ModelErrorException", (502, "upstream_error")),
        (429, "ThrottlingException", (429, "rate_limit_exceeded")),
        (503, "ServiceUnavailableException", (503, "upstream_unavailable")),
    ],
)
async def test_a_refusal_is_an_openai_error(
    fake: FakeBedrock,
    client: httpx.AsyncClient,
    *,
    status: int,
    kind: str,
    told: tuple[int, str | None],
    streams: bool,
) -> None:
    """Each has its status and code, and names no account; the connection goes back."""
    message = "User arn:aws:sts::123456789012:assumed-role/gw may not"
    fake.next(Refuses(status, kind, message, {"x-amz-retry-after": "2000"}))

    reply = await backend(fake, client).send(chat(streams=streams))
    body = await read_all(reply)

    assert told == (reply.status, msgspec.json.decode(body)["error"]["code"])
    assert (b"application/json", b"2") == (dict(reply.headers)[b"content-type"], dict(reply.headers)[b"retry-after"])
    assert b"123456789012" not in body
    assert [] == busy(client)


@pytest.mark.parametrize("streams", [False, True])
async def test_a_200_without_an_answer_is_broken(
    fake: FakeBedrock, client: httpx.AsyncClient, *, streams: bool
) -> None:
    """Bedrock's way of saying "no such path" does not pass for an empty answer."""
    fake.next(CORAL)

    with pytest.raises(ReplyBroken, match="Bedrock answered 200 without"):
        await backend(fake, client).send(chat(streams=streams))
    assert [] == busy(client)


async def test_a_wrong_key_is_the_gateways_fault(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """The caller learns that the upstream's authentication failed, not how."""
    chain = CredentialChain()  # the environment's, for another region
    wrong = SigV4Signer(region="eu-west-1", credentials=chain)

    reply = await backend(fake, client, signer=wrong).send(chat())

    assert (502, "upstream_auth") == (reply.status, msgspec.json.decode(await reply.read())["error"]["code"])


async def test_expired_credentials_are_fetched_afresh(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """AWS's word that they have expired ends the life of the credentials held."""
    sessions: list[KeyHolder] = []

    def new_session() -> KeyHolder:
        sessions.append(KeyHolder())
        return sessions[-1]

    signer = SigV4Signer(region=REGION, credentials=CredentialChain(new_session=new_session))
    model = backend(fake, client, signer=signer)
    fake.next(Refuses(403, "ExpiredTokenException"))

    statuses = [(await model.send(chat())).status for _ in range(3)]

    assert [502, 200, 200] == statuses
    assert 2 == len(sessions)


# --- a stream that fails


@pytest.mark.parametrize(
    "steps",
    [
        (exception("throttlingException", "slow down"),),
        (MESSAGE_START, exception("throttlingException", "slow down")),
        (MESSAGE_START, text_delta(""), error("ThrottlingException", "slow down"), Cut.STALL),
    ],
)
async def test_an_exception_before_the_first_text_is_a_refusal(
    fake: FakeBedrock, client: httpx.AsyncClient, steps: tuple[bytes | Cut, ...]
) -> None:
    """Bedrock's 200 was premature: nothing has gone to the caller, so another backend can still be asked."""
    fake.next(Streams(steps))

    reply = await backend(fake, client).send(chat(streams=True))
    body = msgspec.json.decode(await read_all(reply))

    assert (429, "rate_limit_exceeded") == (reply.status, body["error"]["code"])
    assert [] == busy(client)


@pytest.mark.parametrize(
    ("last", "failure"),
    [
        ((exception("internalServerException", "boom"),), ReplyBroken),
        ((exception("modelTimeoutException", "late"),), UpstreamTimeout),
        ((error("InternalFailure", "boom"),), ReplyBroken),
        ((event("throttlingException", {"message": "slow down"}),), ReplyBroken),
        ((event("messageStop", {"stopReason": "malformed_model_output"}),), ReplyBroken),
        ((), ReplyBroken),
        ((STOP[:40],), ReplyBroken),
        ((STOP, event("metadata", {})[:40]), ReplyBroken),
        ((STOP[:-1] + bytes([STOP[-1] ^ 1]),), ReplyBroken),
        ((Cut.ABORT,), ReplyBroken),
        ((STOP[:40], Cut.ABORT), ReplyBroken),
    ],
)
async def test_a_failure_in_the_middle_ends_without_done(
    fake: FakeBedrock, client: httpx.AsyncClient, last: tuple[bytes | Cut, ...], failure: type[Exception]
) -> None:
    """What came is read, then the read fails: neither a fault, nor damage, nor a cut passes for the end."""
    fake.next(Streams((MESSAGE_START, text_delta("Hel"), text_delta("lo"), *last)))

    reply = await backend(fake, client).send(chat(streams=True))
    seen = await reply.read() + await reply.read()
    with pytest.raises(failure):
        await reply.read()
    ended = reply.ended
    await reply.aclose()

    assert "Hello" == text(seen)
    assert b"[DONE]" not in seen
    assert not ended
    assert [] == busy(client)


@pytest.mark.parametrize(
    "scenario", [Silent(), Streams((Cut.STALL,)), Streams((MESSAGE_START, text_delta(""), Cut.STALL))]
)
async def test_silence_before_the_first_text_is_a_timeout(
    fake: FakeBedrock, client: httpx.AsyncClient, scenario: Scenario
) -> None:
    """A status of 200, and events that say nothing, do not stop the clock."""
    fake.next(scenario)

    with pytest.raises(UpstreamTimeout) as caught:
        await backend(fake, client, timeouts=Timeouts(first_event_s=0.5)).send(chat(streams=True))

    assert "first_byte" == caught.value.phase
    assert await fake.caller_left(within_s=20)
    assert [] == busy(client)


async def test_usage_that_does_not_come_is_not_waited_for(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """After ``messageStop`` the answer is whole: a short wait later the stream is ended as finished."""
    fake.next(Streams((MESSAGE_START, text_delta("Hello"), STOP, Cut.STALL)))

    reply = await backend(fake, client, timeouts=Timeouts(metadata_s=0.05)).send(chat(streams=True))
    data = await read_all(reply)

    assert "Hello" == text(data)
    assert data.endswith(b"data: [DONE]\n\n")
    assert reply.ended
    assert await fake.caller_left(within_s=20)
    assert [] == busy(client)


async def test_a_usage_cut_in_its_frame_is_waited_for_like_any_event(
    fake: FakeBedrock, client: httpx.AsyncClient
) -> None:
    """Half a frame is not silence after the end, but an idle stream."""
    fake.next(Streams((MESSAGE_START, text_delta("Hello"), STOP + event("metadata", {})[:40], Cut.STALL)))
    timeouts = Timeouts(metadata_s=0.01, idle_s=0.1)

    reply = await backend(fake, client, timeouts=timeouts).send(chat(streams=True))
    await reply.read()
    with pytest.raises(UpstreamTimeout) as caught:
        await reply.read()
    await reply.aclose()

    assert "idle" == caught.value.phase


# --- nothing is left behind


async def test_a_finished_reply_gives_its_connection_back(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """Ten answers one after the other, of both kinds, use one connection."""
    model = backend(fake, client)
    for streams in [False, True] * 5:
        await read_all(await model.send(chat(streams=streams)))

    assert [] == busy(client)
    assert 1 == len(client._transport._pool.connections)  # type: ignore[attr-defined]


@pytest.mark.parametrize("delay_s", [0.0, 0.001, 0.003, 0.01, 0.05])
@pytest.mark.parametrize("streams", [False, True])
async def test_cancelling_at_any_moment_leaves_nothing(
    fake: FakeBedrock, client: httpx.AsyncClient, delay_s: float, *, streams: bool
) -> None:
    """Looking up credentials, connecting, sending or waiting: a cancelled call holds no connection."""
    fake.next(*[Silent()] * 5)
    model = backend(fake, client)
    calls = [asyncio.create_task(model.send(chat(streams=streams))) for _ in range(5)]

    await asyncio.sleep(delay_s)
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)

    assert all(call.cancelled() for call in calls)
    assert [] == busy(client)


async def test_no_credentials_send_nothing(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """Without credentials the call fails as one that could not connect."""

    class Nobody(KeyHolder):
        def get_credentials(self) -> Any:
            return None

    signer = SigV4Signer(region=REGION, credentials=CredentialChain(new_session=Nobody))

    with pytest.raises(ConnectFailed):
        await backend(fake, client, signer=signer).send(chat())
    assert [] == fake.requests

import asyncio
from typing import Any

import httpx
import msgspec
import pytest

from gateway.backends.backend import Call, Reply
from gateway.backends.bedrock.aws import CredentialChain, SigV4Signer
from gateway.backends.bedrock.backend import BedrockBackend
from gateway.backends.bedrock.bearer import BearerSigner
from gateway.backends.bedrock.endpoint import BedrockTimeouts
from gateway.backends.bedrock.refusals import Refusals
from gateway.protocol.errors import ClientError, ConnectFailed, InvalidField, ReplyBroken, UpstreamTimeout
from tests.fakes.bedrock import (
    CORAL,
    MESSAGE_START,
    REGION,
    Cut,
    FakeBedrock,
    KeyHolder,
    Raw,
    Refuses,
    Says,
    Scenario,
    Silent,
    Streams,
    Use,
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
    """Connections of the pool that are neither idle nor closed: what a leak would leave."""
    pool = client._transport._pool  # type: ignore[attr-defined]  # httpx has no public view of it
    return [connection for connection in pool.connections if not connection.is_idle() and not connection.is_closed()]


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

    assert b"min_p,seed,other" == dict(reply.headers)[b"x-warmgate-dropped-params"]


async def test_without_dropped_fields_there_is_no_such_header(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """The header only appears when it says something."""
    reply = await backend(fake, client).send(chat())

    assert b"x-warmgate-dropped-params" not in dict(reply.headers)


async def test_the_id_names_the_model_without_the_account(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """The id goes out in a header, so the account number of an ARN is not part of it."""
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"

    assert "bedrock:qwen.qwen3-32b-v1:0" == backend(fake, client).id
    assert "bedrock:application-inference-profile/abc" == backend(fake, client, model_id=arn).id


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
    ("status", "kind", "shown"),
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
    shown: tuple[int, str | None],
    streams: bool,
) -> None:
    """Each has its status and code, and names no account; the connection goes back."""
    message = "User arn:aws:sts::123456789012:assumed-role/gw may not"
    fake.next(Refuses(status, kind, message, {"x-amz-retry-after": "2000"}))

    reply = await backend(fake, client).send(chat(streams=streams))
    body = await read_all(reply)

    assert shown == (reply.status, msgspec.json.decode(body)["error"]["code"])
    assert (b"application/json", b"2") == (dict(reply.headers)[b"content-type"], dict(reply.headers)[b"retry-after"])
    assert b"123456789012" not in body
    assert [] == busy(client)


@pytest.mark.parametrize("streams", [False, True])
async def test_a_200_without_an_answer_is_broken(
    fake: FakeBedrock, client: httpx.AsyncClient, *, streams: bool
) -> None:
    """Bedrock's way of saying "no such path" does not pass for an empty answer."""
    fake.next(CORAL)

    with pytest.raises(ReplyBroken, match="Bedrock returned status 200 without"):
        await backend(fake, client).send(chat(streams=streams))
    assert [] == busy(client)


async def test_a_wrong_key_is_the_gateways_fault(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """The caller learns that the upstream's authentication failed, not how."""
    chain = CredentialChain()  # the environment's, for another region
    wrong = SigV4Signer(region="eu-west-1", credentials=chain)

    reply = await backend(fake, client, signer=wrong).send(chat())

    assert (502, "upstream_auth") == (reply.status, msgspec.json.decode(await reply.read())["error"]["code"])


async def test_expired_credentials_are_fetched_afresh(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """AWS's word that they have expired ends the life of the credentials held, and the call is made once more."""
    sessions: list[KeyHolder] = []

    def new_session() -> KeyHolder:
        sessions.append(KeyHolder())
        return sessions[-1]

    signer = SigV4Signer(region=REGION, credentials=CredentialChain(new_session=new_session))
    model = backend(fake, client, signer=signer)
    fake.next(Refuses(403, "ExpiredTokenException"))

    statuses = [(await model.send(chat())).status for _ in range(2)]

    assert [200, 200] == statuses
    assert 2 == len(sessions)
    assert 3 == len(fake.requests)


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
        await backend(fake, client, timeouts=BedrockTimeouts(first_event_s=0.5)).send(chat(streams=True))

    assert "first_byte" == caught.value.phase
    assert await fake.caller_left(within_s=20)
    assert [] == busy(client)


async def test_usage_that_does_not_come_is_not_waited_for(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """After ``messageStop`` the answer is whole: a short wait later the stream is ended as finished."""
    fake.next(Streams((MESSAGE_START, text_delta("Hello"), STOP, Cut.STALL)))

    reply = await backend(fake, client, timeouts=BedrockTimeouts(metadata_s=0.05)).send(chat(streams=True))
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
    timeouts = BedrockTimeouts(metadata_s=0.01, idle_s=0.1)

    reply = await backend(fake, client, timeouts=timeouts).send(chat(streams=True))
    await reply.read()
    with pytest.raises(UpstreamTimeout) as caught:
        await reply.read()
    await reply.aclose()

    assert "idle" == caught.value.phase


# --- tools


TOOLS = [
    {"type": "function", "function": {"name": "files.read", "parameters": {"type": "object", "properties": {}}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
]


def called(data: bytes, *, streams: bool) -> list[tuple[str, str]]:
    """Names and arguments of the calls in an answer, whole or streamed."""
    if not streams:
        found = msgspec.json.decode(data)["choices"][0]["message"]["tool_calls"]
        return [(call["function"]["name"], call["function"]["arguments"]) for call in found]
    calls: list[list[str]] = []
    for line in data.split(b"\n\n")[:-2]:
        for choice in msgspec.json.decode(line.removeprefix(b"data: "))["choices"]:
            for call in choice["delta"].get("tool_calls", []):
                if "id" in call:
                    assert len(calls) == call["index"]
                    calls.append([call["function"]["name"], ""])
                calls[call["index"]][1] += call["function"]["arguments"]
    return [(name, arguments) for name, arguments in calls]


@pytest.mark.parametrize("model_id", ["qwen.qwen3-32b-v1:0", "us.meta.llama3-3-70b-instruct-v1:0"])
@pytest.mark.parametrize("streams", [False, True])
async def test_tools_are_called(fake: FakeBedrock, client: httpx.AsyncClient, model_id: str, *, streams: bool) -> None:
    sent = "files_read"
    fake.next(
        Says(
            ("One moment.",),
            uses=(Use(sent, {"path": "/etc/hosts", "n": 1}), Use("now", id="tooluse_2")),
            stop_reason="tool_use",
        )
    )

    reply = await backend(fake, client, model_id=model_id).send(chat(streams=streams, tools=TOOLS))
    data = await read_all(reply)

    (request,) = fake.requests
    assert sent == request.body["toolConfig"]["tools"][0]["toolSpec"]["name"]
    assert ("converse-stream" if streams and "qwen" in model_id else "converse") == request.operation
    assert [("files.read", '{"path":"/etc/hosts","n":1}'), ("now", "{}")] == called(data, streams=streams)
    assert b'"finish_reason":"tool_calls"' in data
    assert (b"text/event-stream" if streams else b"application/json") == dict(reply.headers)[b"content-type"]
    assert streams == data.endswith(b"data: [DONE]\n\n")
    assert [] == fake.rejections


async def test_malformed_tool_use_is_no_answer(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """Another backend can still be asked."""
    fake.next(*[Says(uses=(Use("now"),), texts=(), stop_reason="malformed_tool_use")] * 2)

    with pytest.raises(ReplyBroken, match="malformed_tool_use"):
        await backend(fake, client).send(chat(tools=TOOLS))


# --- what a model turns out not to know


def does_not_know(field: str) -> Refuses:
    text = f"This model doesn't support the {field} field. Remove {field} and try again."
    return Refuses(400, "ValidationException", text)


@pytest.mark.parametrize("streams", [False, True])
async def test_a_field_that_the_model_does_not_know_is_left_out(
    fake: FakeBedrock, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, *, streams: bool
) -> None:
    """At once, and from then on: the caller is reported which, and the log reports the operator once."""
    fake.next(does_not_know("temperature"))
    model = backend(fake, client)

    replies = [await model.send(chat(streams=streams, temperature=0.5, seed=1)) for _ in range(2)]
    for reply in replies:
        await read_all(reply)

    assert [True, False, False] == ["temperature" in request.body["inferenceConfig"] for request in fake.requests]
    assert [b"seed,temperature"] * 2 == [dict(reply.headers)[b"x-warmgate-dropped-params"] for reply in replies]
    assert [200, 200] == [reply.status for reply in replies]
    assert 1 == len([record for record in caplog.records if "temperature" in record.getMessage()])


@pytest.mark.parametrize("streams", [False, True])
async def test_stop_strings_that_the_model_does_not_take_are_found_here(
    fake: FakeBedrock, client: httpx.AsyncClient, *, streams: bool
) -> None:
    """Left out of the request, they still end the answer."""
    fake.next(does_not_know("stopSequences"))

    data = await read_all(await backend(fake, client).send(chat(streams=streams, stop=["wor"])))

    answered = text(data) if streams else msgspec.json.decode(data)["choices"][0]["message"]["content"]
    assert "Hello " == answered
    assert ["stopSequences" in request.body["inferenceConfig"] for request in fake.requests] == [True, False]
    assert b'"finish_reason":"stop"' in data


async def test_a_refusal_of_the_first_frame_is_mended_too(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """Some refusals come behind a status of 200."""
    fake.next(Streams((exception("validationException", does_not_know("topP").message), Cut.STALL)))

    reply = await backend(fake, client).send(chat(streams=True, top_p=0.5))

    assert "Hello world" == text(await read_all(reply))
    assert [] == busy(client)


async def test_calls_side_by_side_learn_the_same_once(
    fake: FakeBedrock, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Both were under way before either was refused."""
    fake.next(*[does_not_know("temperature")] * 2)
    model = backend(fake, client)

    replies = await asyncio.gather(*[model.send(chat(temperature=0.5)) for _ in range(2)])

    assert [200, 200] == [reply.status for reply in replies]
    assert 4 == len(fake.requests)
    assert 1 == len([record for record in caplog.records if "temperature" in record.getMessage()])


async def test_no_more_than_four_fields_are_left_out(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """A model that refuses a fifth is asked for something that it is not."""
    fields = ("temperature", "topP", "stopSequences", "requestMetadata", "serviceTier")
    fake.next(*[does_not_know(field) for field in fields])
    asked = chat(temperature=0.5, top_p=0.5, stop=["x"], user="u", service_tier="flex")

    reply = await backend(fake, client).send(asked)

    assert (400, 5) == (reply.status, len(fake.requests))


ARN = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"


def says(message: str) -> Refuses:
    return Refuses(400, "ValidationException", message)


async def test_a_field_refused_in_claudes_words_is_left_out_behind_an_arn(
    fake: FakeBedrock, client: httpx.AsyncClient
) -> None:
    fake.next(says("The model returned the following errors: `temperature` is deprecated for this model."))
    model = backend(fake, client, model_id=ARN)
    replies = [await model.send(chat(temperature=0.5)) for _ in range(2)]
    asked = [request.body["inferenceConfig"].keys() for request in fake.requests]

    assert [200, 200] == [reply.status for reply in replies]
    assert [True, False, False] == ["temperature" in fields for fields in asked]
    assert (b"x-warmgate-dropped-params", b"temperature") in replies[1].headers


async def test_of_two_fields_that_exclude_each_other_one_stays(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """The temperature; the other is taken where it stands alone."""
    fake.next(says("`temperature` and `top_p` cannot both be specified for this model. Please use only one."))
    model = backend(fake, client, model_id=ARN)
    for call in (chat(temperature=0.5, top_p=0.5), chat(temperature=0.5, top_p=0.5), chat(top_p=0.5)):
        await model.send(call)
    asked = [request.body["inferenceConfig"] for request in fake.requests]

    assert [{"temperature", "topP"}, {"temperature"}, {"temperature"}, {"topP"}] == [
        fields.keys() - {"maxTokens"} for fields in asked
    ]


@pytest.mark.parametrize(
    ("message", "lowered"),
    [
        (
            "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value "
            "that is lower than 4096.",
            4096,
        ),
        (
            "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5",
            64000,
        ),
        ("max_tokens=100000 cannot be greater than max_model_len=16384. Please request fewer output tokens.", 16384),
        ("max_tokens is too large: 100000. This model supports at most 16384 completion tokens.", 16384),
        ("Value 100000 at 'inferenceConfig.maxTokens' failed: Member must have value less than or equal to 8192", 8192),
    ],
)
async def test_an_output_limit_that_a_refusal_names_is_kept_to(
    fake: FakeBedrock, client: httpx.AsyncClient, message: str, lowered: int
) -> None:
    """At once, and by all later requests."""
    fake.next(says(message))
    model = backend(fake, client, model_id=ARN)
    replies = [await model.send(chat(max_tokens=100_000)) for _ in range(2)]

    assert [200, 200] == [reply.status for reply in replies]
    assert [100_000, lowered, lowered] == [request.body["inferenceConfig"]["maxTokens"] for request in fake.requests]


async def test_what_a_prompt_leaves_of_the_context_is_not_remembered(
    fake: FakeBedrock, client: httpx.AsyncClient
) -> None:
    """The next prompt may be shorter."""
    fake.next(
        says(
            "'max_tokens' is too large: 8000. This model's maximum context length is 8192 tokens and your request has "
            "1192 input tokens (8000 > 8192 - 1192)."
        )
    )
    model = backend(fake, client, model_id=ARN)
    for _ in range(2):
        await model.send(chat(max_tokens=8000))

    assert [8000, 7000, 8000] == [request.body["inferenceConfig"]["maxTokens"] for request in fake.requests]


async def test_a_limit_that_it_must_be_lower_than_is_undercut(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """Where the limit itself is refused."""
    fake.next(*[says("The maximum tokens you requested exceeds the model limit of 4096.")] * 2)
    reply = await backend(fake, client, model_id=ARN).send(chat(max_tokens=5000))

    assert 200 == reply.status
    assert [5000, 4096, 4095] == [request.body["inferenceConfig"]["maxTokens"] for request in fake.requests]


async def test_what_is_learned_is_shared_by_all_that_lead_to_the_same_target(
    fake: FakeBedrock, client: httpx.AsyncClient
) -> None:
    """Other models of the gateway, and those of settings that were read again."""
    fake.next(says("`temperature` is deprecated for this model."))
    refusals = Refusals()
    for _ in range(2):
        await backend(fake, client, model_id=ARN, refusals=refusals).send(chat(temperature=0.5))

    assert 3 == len(fake.requests)


async def test_a_known_model_is_not_asked_for_more_than_it_takes(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    await backend(fake, client).send(chat(max_tokens=100_000))
    await backend(fake, client, max_output_tokens=9000).send(chat(max_tokens=100_000))

    assert [8192, 9000] == [request.body["inferenceConfig"]["maxTokens"] for request in fake.requests]


async def test_the_openai_wire_heals_likewise(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    fake.next(
        says("Unsupported value: 'temperature' does not support 0.5 with this model. Only 1 is supported."),
        says("max_tokens is too large: 9000. This model supports at most 4096 completion tokens."),
    )
    model = backend(fake, client, model_id=ARN, wire="openai")
    replies = [await model.send(chat(temperature=0.5, max_tokens=9000)) for _ in range(2)]
    last = fake.requests[-1].body

    assert [200, 200] == [reply.status for reply in replies]
    assert 4 == len(fake.requests)
    assert ("temperature" in last, last["max_tokens"]) == (False, 4096)


@pytest.mark.parametrize("field", ["messages", "heardOfNever"])
async def test_what_cannot_be_left_out_stays_a_refusal(
    fake: FakeBedrock, client: httpx.AsyncClient, field: str
) -> None:
    """The question without it would be another one."""
    fake.next(does_not_know(field))

    reply = await backend(fake, client).send(chat())

    assert (400, 1) == (reply.status, len(fake.requests))


async def test_credentials_are_renewed_once(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """If those that were fetched afresh are called expired as well, it is for somebody else to mend."""
    fake.next(*[Refuses(403, "ExpiredTokenException")] * 3)

    reply = await backend(fake, client).send(chat())

    assert (502, 2) == (reply.status, len(fake.requests))


# --- an API key, and OpenAI's words


async def test_an_api_key_takes_the_place_of_the_signature(client: httpx.AsyncClient) -> None:
    """Also where the endpoint is plain HTTP."""
    async with FakeBedrock(bearer="key-1").serving() as fake:
        known = await backend(fake, client, signer=BearerSigner(token="key-1")).send(chat())
        stranger = await backend(fake, client, signer=BearerSigner(token="key-2")).send(chat())

        assert (200, 502) == (known.status, stranger.status)
        assert b"key-2" not in await stranger.read()


@pytest.mark.parametrize("streams", [False, True])
async def test_openais_words_are_spoken_where_they_are_understood(
    fake: FakeBedrock, client: httpx.AsyncClient, *, streams: bool
) -> None:
    """Signed like any other request; thoughts come out of the content, and calls go through."""
    fake.next(Says(("Fo", "ur."), reasoning="2 and 2", uses=(Use("f", {"x": 1}),)))
    model = backend(fake, client, model_id="openai.gpt-oss-20b-1:0", wire="openai", max_output_tokens=64)

    reply = await model.send(chat(streams=streams, min_p=0.1, stream_options={"include_usage": True}))
    data = await read_all(reply)

    (request,) = fake.requests
    assert [] == fake.rejections
    assert ("openai.gpt-oss-20b-1:0", 64) == (request.model_id, request.body["max_completion_tokens"])
    assert b"min_p" == dict(reply.headers)[b"x-warmgate-dropped-params"]
    assert b'"reasoning_content":"2 and 2"' in data
    assert b"<reasoning>" not in data
    assert [("f", '{"x":1}')] == called(data, streams=streams)
    assert b'"model":"tiny"' in data
    assert b'"total_tokens":16' in data
    assert reply.ended
    assert [] == busy(client)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("scenario", "status"),
    [
        (Refuses(429, "ThrottlingException", "slow down"), 429),
        (Raw({"error": {"message": "no such model", "type": "not_found_error", "code": None}}, 404), 503),
        (Raw({"error": {"message": "max_tokens is too large", "type": "invalid_request_error"}}, 400), 400),
    ],
)
async def test_a_refusal_in_openais_words_is_one(
    fake: FakeBedrock, client: httpx.AsyncClient, scenario: Scenario, status: int, *, streams: bool
) -> None:
    """Both shapes of error are read on that path."""
    fake.next(scenario)

    reply = await backend(fake, client, wire="openai").send(chat(streams=streams))

    assert status == reply.status
    assert isinstance(msgspec.json.decode(await read_all(reply))["error"]["message"], str)


@pytest.mark.parametrize("streams", [False, True])
async def test_a_model_without_that_path_is_broken(
    fake: FakeBedrock, client: httpx.AsyncClient, *, streams: bool
) -> None:
    """Bedrock says 200 there as everywhere."""
    fake.next(CORAL)

    with pytest.raises(ReplyBroken, match="200 without"):
        await backend(fake, client, wire="openai").send(chat(streams=streams))
    assert [] == busy(client)


@pytest.mark.parametrize("last", [(), (Cut.ABORT,), (b'data: {"error":{"message":"boom"}}\n\n',)])
async def test_a_failing_stream_of_openais_ends_without_done(
    fake: FakeBedrock, client: httpx.AsyncClient, last: tuple[bytes | Cut, ...]
) -> None:
    """A cut and an error are reported, as they are in Converse."""
    chunks = list(Says().to_chunks("m"))[:2]
    fake.next(Streams((*chunks, *last), content_type="text/event-stream"))

    reply = await backend(fake, client, wire="openai").send(chat(streams=True))
    with pytest.raises(ReplyBroken):
        await read_all(reply)

    assert not reply.ended
    assert [] == busy(client)


# --- patience


async def test_a_shorter_patience_counts_for_streams(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """The backend's own is a minute, and the shorter of the two counts."""
    fake.next(Streams((MESSAGE_START, Cut.STALL)), Streams((MESSAGE_START, Cut.STALL)))
    patient = backend(fake, client)
    impatient = backend(fake, client, timeouts=BedrockTimeouts(first_event_s=0.1))

    for model, first_byte_s in ((patient, 0.1), (impatient, 3600.0)):
        with pytest.raises(UpstreamTimeout) as caught:
            await model.send(chat(streams=True), first_byte_s=first_byte_s)
        assert "first_byte" == caught.value.phase
    assert [] == busy(client)


@pytest.mark.parametrize("streams", [False, True])
async def test_a_whole_answer_has_a_patience_of_its_own(
    fake: FakeBedrock, client: httpx.AsyncClient, *, streams: bool
) -> None:
    """Its first byte comes with its last; also where a stream is made of it."""
    model = backend(fake, client, model_id="us.meta.llama3-3-70b-instruct-v1:0")

    reply = await model.send(chat(streams=streams, tools=TOOLS), first_byte_s=0.0)

    assert 200 == reply.status


async def test_a_stall_is_cut_short_from_outside(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    fake.default = Streams((MESSAGE_START, text_delta("Hel"), Cut.STALL))
    paused = await backend(fake, client).send(chat(streams=True))
    await paused.read()
    paused.expect_within(0.05)
    with pytest.raises(UpstreamTimeout, match="no data"):
        await paused.read()
    shown = await backend(fake, client).send(chat(streams=True))
    shown.interrupt(ReplyBroken("the node is going away"))
    with pytest.raises(ReplyBroken, match="node"):
        await shown.read()
    for reply in (paused, shown):
        await reply.aclose()

    assert await fake.caller_left(within_s=20)
    assert [] == busy(client)


async def test_a_body_shorter_than_promised_is_broken(fake: FakeBedrock, client: httpx.AsyncClient) -> None:
    """Even if all that came would make a whole stream."""
    fake.next(Streams((MESSAGE_START, text_delta("Hel")), promised_bytes=10_000))

    reply = await backend(fake, client).send(chat(streams=True))
    await reply.read()
    with pytest.raises(ReplyBroken):
        await reply.read()
    await reply.aclose()

    assert [] == busy(client)


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

    class NoSession(KeyHolder):
        def get_credentials(self) -> Any:
            return None

    signer = SigV4Signer(region=REGION, credentials=CredentialChain(new_session=NoSession))

    with pytest.raises(ConnectFailed):
        await backend(fake, client, signer=signer).send(chat())
    assert [] == fake.requests


@pytest.mark.parametrize("streams", [False, True])
async def test_json_that_was_asked_for_in_words_is_mended(
    fake: FakeBedrock, client: httpx.AsyncClient, streams: bool
) -> None:
    fake.next(Says(texts=('Sure!\n```json\n{"a":1}\n```',)))
    model = backend(fake, client, model_id="us.meta.llama3-3-70b-instruct-v1:0")
    said = await read_all(await model.send(chat(streams=streams, response_format={"type": "json_object"})))

    assert b'"content":"{\\"a\\":1}"' in said
    assert b"Sure" not in said

"""Complete answers for OpenAI's SDK, from a Bedrock that no one here wrote, when no worker is left."""

import json
from typing import Any
from urllib.parse import unquote

import openai as sdk
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessageParam, ChatCompletionToolParam

from tests.bedrock.conftest import ARN, FALLBACKS, GPT_OSS, LLAMA, QWEN, Served

HELLO = "Hello! Grüße aus Zürich, 世界. How can I help you today?"
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    # A name that Bedrock takes: aimock answers with the one that stands in its fixture.
    "function": {
        "name": "weather_now",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
    "additionalProperties": False,
}
MODELS = sorted(FALLBACKS)


def user(text: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": text}]


def streamed(openai: OpenAI, model: str, messages: list[ChatCompletionMessageParam], **more: Any) -> ChatCompletion:
    """The chunks of a stream, put together as the SDK's own helper does it."""
    with openai.chat.completions.stream(
        model=model, messages=messages, stream_options={"include_usage": True}, **more
    ) as stream:
        for _ in stream:
            pass
        return stream.get_final_completion()


def answered(openai: OpenAI, model: str, text: str, *, streams: bool, **more: Any) -> ChatCompletion:
    if streams:
        return streamed(openai, model, user(text), **more)
    found: ChatCompletion = openai.chat.completions.create(model=model, messages=user(text), **more)
    return found


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("streams", [False, True])
def test_text_comes_whole(openai: OpenAI, model: str, *, streams: bool) -> None:
    """Every character, in order, under the name that the caller used."""
    found = answered(openai, model, "say hello", streams=streams)

    assert (HELLO, "stop") == (found.choices[0].message.content, found.choices[0].finish_reason)
    assert model == found.model


@pytest.mark.parametrize("streams", [False, True])
def test_usage_is_reported(openai: OpenAI, *, streams: bool) -> None:
    usage = answered(openai, "qwen", "say hello", streams=streams).usage

    assert usage is not None
    assert (11, 17, 28) == (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)


@pytest.mark.parametrize(("model", "answers"), [("qwen", QWEN), ("gpt-oss", GPT_OSS), ("llama", LLAMA)])
def test_the_answer_says_who_gave_it(openai: OpenAI, model: str, answers: str) -> None:
    """A header names Bedrock's model."""
    reply = openai.chat.completions.with_raw_response.create(model=model, messages=user("say hello"))

    assert f"bedrock:{answers}" == reply.headers["x-warmgate-worker"]


def test_an_arn_is_addressed(openai: OpenAI, served: Served) -> None:
    """Its slashes and colons are read as they were meant, and its account is not reported to callers."""
    reply = openai.chat.completions.with_raw_response.create(model="profile", messages=user("say hello"))

    assert ARN == unquote(served.last_asked()["path"].split("/")[2])
    assert "123456789012" not in str(reply.headers)


@pytest.mark.parametrize("model", ["qwen", "nova", "gpt-oss"])
@pytest.mark.parametrize("streams", [False, True])
def test_thoughts_are_distinguished(openai: OpenAI, model: str, *, streams: bool) -> None:
    """In a field of their own, and not in the answer."""
    message = answered(openai, model, "think first", streams=streams).choices[0].message

    assert "Four." == message.content
    assert {"Two and two, that is one, two, three, four."} == set((message.model_extra or {}).values()) - {None}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("text", "finish"), [("cut it short", "length"), ("something forbidden", "content_filter")])
def test_the_end_has_its_reason(openai: OpenAI, text: str, finish: str, *, streams: bool) -> None:
    """What Bedrock calls max_tokens or guardrail_intervened has OpenAI's name."""
    reasons: list[str | None] = []
    if streams:
        chunks = openai.chat.completions.create(model="qwen", messages=user(text), stream=True)
        reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    else:
        found = openai.chat.completions.create(model="qwen", messages=user(text))
        reasons = [found.choices[0].finish_reason]

    assert [finish] == reasons


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("streams", [False, True])
def test_tools_make_the_round_trip(openai: OpenAI, served: Served, model: str, *, streams: bool) -> None:
    """Two calls come, one without arguments; their results go back, and the answer to them comes."""
    asked = user("weather in Paris and Oslo")

    first = (
        streamed(openai, model, asked, tools=[WEATHER])
        if streams
        else openai.chat.completions.create(model=model, messages=asked, tools=[WEATHER])
    )
    choice = first.choices[0]
    calls = choice.message.tool_calls or []

    assert ("I look it up.", "tool_calls") == (choice.message.content, choice.finish_reason)
    assert [
        ("tooluse_paris", "weather_now", {"city": "Paris", "days": [1, 2]}),
        ("tooluse_oslo", "weather_now", {}),
    ] == [
        (call.id, call.function.name, json.loads(call.function.arguments)) for call in calls if call.type == "function"
    ]

    history: list[Any] = [
        *asked,
        choice.message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}),
    ]
    history += [{"role": "tool", "tool_call_id": call.id, "content": "mild"} for call in calls]
    second = (
        streamed(openai, model, history, tools=[WEATHER])
        if streams
        else openai.chat.completions.create(model=model, messages=history, tools=[WEATHER])
    )

    assert "Paris is warm, Oslo is not." == second.choices[0].message.content
    sent = served.last_asked()["body"]["messages"]
    assert ["tooluse_paris", "tooluse_oslo"] == [
        message["tool_call_id"] for message in sent if message["role"] == "tool"
    ]


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("qwen", "which city, as JSON"),
        ("gpt-oss", "which city, as JSON"),
        ("llama", "which city, as JSON"),
        ("nova", "which city, by a tool"),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
def test_json_of_a_schema_is_the_content(openai: OpenAI, model: str, text: str, *, streams: bool) -> None:
    """Whether the model knows schemas, is reported in words, or is made to call a tool."""
    schema = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}

    found = answered(openai, model, text, streams=streams, response_format=schema)

    assert {"name": "Oslo", "people": 709037} == json.loads(found.choices[0].message.content or "")
    assert "stop" == found.choices[0].finish_reason
    assert not found.choices[0].message.tool_calls


@pytest.mark.parametrize(("model", "streams"), [("refusing", False), ("refusing-openai", True)])
def test_a_refusal_is_an_error_of_the_sdk(openai: OpenAI, served: Served, model: str, *, streams: bool) -> None:
    """Where everything has failed it is a 503, and it says when to come back."""
    with pytest.raises(sdk.InternalServerError) as caught:
        openai.chat.completions.create(model=model, messages=user("too much"), stream=streams)

    assert 503 == caught.value.status_code
    assert "retry-after" in caught.value.response.headers
    assert 429 == served.last_asked()["response"]["status"]


@pytest.mark.parametrize("model", ["qwen", "gpt-oss"])
def test_a_stream_that_is_cut_does_not_end_in_silence(openai: OpenAI, model: str) -> None:
    """What came can be read, and then the SDK raises."""
    seen = ""
    chunks = openai.chat.completions.create(model=model, messages=user("break off"), stream=True)
    with pytest.raises(sdk.APIError):
        seen = _read_on(chunks, seen)


def _read_on(chunks: sdk.Stream[ChatCompletionChunk], seen: str) -> str:
    for chunk in chunks:
        seen += "".join(choice.delta.content or "" for choice in chunk.choices)
    return seen

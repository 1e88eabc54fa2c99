import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.backends.bedrock.family import FAMILIES, OTHER, Family, family_of
from gateway.backends.bedrock.refusals import Unsupported
from gateway.backends.bedrock.request import ConverseRequest, to_converse
from gateway.protocol.errors import ClientError, InvalidField, MalformedBody
from tests.gateway.backends.bedrock.chats import PNG, bodies, spoilt_bodies
from tests.gateway.backends.bedrock.shapes import faults

HELLO = [{"role": "user", "content": "hello"}]
CALLED = [
    *HELLO,
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "get weather", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "rain"},
]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "w", "schema": SCHEMA}}
TOOLS = [{"type": "function", "function": {"name": "get weather", "parameters": SCHEMA}}]

QWEN = "qwen.qwen3-32b-v1:0"
CLAUDE_4_5 = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
MODEL_IDS = [
    "us.meta.llama3-3-70b-instruct-v1:0",
    "us.meta.llama4-scout-17b-instruct-v1:0",
    "mistral.mistral-large-3-675b-instruct",
    "mistral.devstral-2-123b",
    CLAUDE_4_5,
    "us.anthropic.claude-3-7-sonnet-20250219-v1:0",
    "us.anthropic.claude-sonnet-4-6",
    "us.anthropic.claude-opus-4-7",
    "amazon.nova-lite-v1:0",
    "us.amazon.nova-2-lite-v1:0",
    QWEN,
    "openai.gpt-oss-20b-1:0",
    "deepseek.v3.2",
    "us.deepseek.r1-v1:0",
    "moonshotai.kimi-k2.5",
    "writer.palmyra-x5-v1:0",
    "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc",
]


def converse(
    fields: dict[str, Any],
    *,
    family: Family = OTHER,
    max_tokens_limit: int | None = None,
    context_tokens: int | None = None,
    prompt_tokens: int | None = None,
) -> ConverseRequest:
    """The request for a chat body with *fields*, found without fault."""
    request = to_converse(
        msgspec.json.encode({"model": "tiny", "messages": HELLO, **fields}),
        default_max_tokens=4096,
        max_tokens_limit=max_tokens_limit,
        context_tokens=context_tokens,
        prompt_tokens=prompt_tokens,
        family=family,
    )
    assert [] == faults(request.payload)
    return request


def test_a_chat_is_a_converse_request() -> None:
    """System texts at the head, the turns, the token limit and the sampling each have their place."""
    request = converse(
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
                {"role": "assistant", "content": "three"},
                {"role": "user", "content": "four"},
            ],
            "max_tokens": 100,
            "temperature": 0.5,
            "top_p": 0.9,
            "stop": ["END", ""],
            "stream": True,
            "stream_options": {"include_usage": True},
            "metadata": {"job": "7"},
            "service_tier": "flex",
        }
    )

    assert {
        "system": [{"text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"text": "one"}, {"text": "two"}]},
            {"role": "assistant", "content": [{"text": "three"}]},
            {"role": "user", "content": [{"text": "four"}]},
        ],
        "inferenceConfig": {"maxTokens": 100, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
        "requestMetadata": {"job": "7"},
        "serviceTier": {"type": "flex"},
    } == request.payload
    assert ((), True, None, False, ()) == (
        request.dropped,
        request.wants_usage,
        request.unwraps_tool,
        request.replays_stream,
        request.stops,
    )


def test_what_is_left_out_is_named() -> None:
    request = converse(
        {
            "seed": 1,
            "top_k": 5,
            "service_tier": "scale",
            "parallel_tool_calls": False,
            "tools": TOOLS,
            "reasoning_effort": "high",
            "messages": [{"role": "user", "content": "a", "name": "ann"}],
        }
    )

    assert (
        "messages.name",
        "parallel_tool_calls",
        "reasoning_effort",
        "seed",
        "service_tier",
        "top_k",
    ) == request.dropped


# --- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "limit", "max_tokens"),
    [
        ({}, None, 4096),
        ({"max_tokens": 7}, None, 7),
        ({"max_tokens": 100_000}, None, 100_000),
        ({"max_tokens": 100_000}, 8192, 8192),
        ({}, 2048, 2048),
        ({}, 8192, 4096),
    ],
)
def test_max_tokens_is_always_sent(fields: dict[str, Any], limit: int | None, max_tokens: int) -> None:
    """Unset it would reserve the model's maximum against the account's quota; above the model's cap it is cut."""
    assert {"maxTokens": max_tokens} == converse(fields, max_tokens_limit=limit).payload["inferenceConfig"]


@pytest.mark.parametrize(
    ("prompt_tokens", "max_tokens"), [(900, 100), (999, 1), (0, 1000), (None, 749), (1000, 4096), (5000, 4096)]
)
def test_the_output_ends_where_the_context_does(prompt_tokens: int | None, max_tokens: int) -> None:
    messages = [{"role": "system", "content": "x" * 400}, {"role": "user", "content": "y" * 600}]
    request = converse({"messages": messages}, context_tokens=1000, prompt_tokens=prompt_tokens)

    assert max_tokens == request.payload["inferenceConfig"]["maxTokens"]


def test_the_bytes_of_an_image_are_not_counted_as_text() -> None:
    url = f"data:image/png;base64,{PNG}"
    messages = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}] * 2}]
    request = converse({"messages": messages}, context_tokens=4000)

    assert 4000 - 2 * 1600 - 2 == request.payload["inferenceConfig"]["maxTokens"]


# --- tools --------------------------------------------------------------------------------------------------------


def test_tools_their_history_and_their_choice_have_one_name() -> None:
    """The caller's own, made plain, and turned back for the answer."""
    request = converse(
        {
            "messages": CALLED,
            "tools": TOOLS,
            "tool_choice": {"type": "function", "function": {"name": "get weather"}},
        }
    )

    assert {
        "tools": [{"toolSpec": {"name": "get_weather", "inputSchema": {"json": SCHEMA}}}],
        "toolChoice": {"tool": {"name": "get_weather"}},
    } == request.payload["toolConfig"]
    assert "get_weather" == request.payload["messages"][1]["content"][0]["toolUse"]["name"]
    assert "get weather" == request.names.original("get_weather")
    assert () == request.dropped


def test_a_history_of_calls_needs_no_tools_of_the_callers() -> None:
    assert ["get_weather"] == [
        tool["toolSpec"]["name"] for tool in converse({"messages": CALLED}).payload["toolConfig"]["tools"]
    ]


def test_no_call_is_made_where_none_is_wanted() -> None:
    """Tools are withheld, and their history is reported."""
    payload = converse({"messages": CALLED, "tools": TOOLS, "tool_choice": "none"}).payload

    assert "toolConfig" not in payload
    assert [{"text": "I called the tool get weather with {}."}] == payload["messages"][1]["content"]
    assert [{"text": "Result of the tool get weather:\nrain"}] == payload["messages"][2]["content"]


def test_llamas_streams_with_tools_are_made_of_whole_answers() -> None:
    llama = FAMILIES["llama"]

    assert converse({"tools": TOOLS}, family=llama).replays_stream
    assert not converse({}, family=llama).replays_stream
    assert not converse({"tools": TOOLS, "tool_choice": "none"}, family=llama).replays_stream
    assert not converse({"tools": TOOLS}).replays_stream


def test_a_choice_that_cannot_be_forced_is_asked_for() -> None:
    request = converse({"tools": TOOLS, "tool_choice": "required"}, family=FAMILIES["llama"])

    assert [{"text": "You must call one of the tools."}] == request.payload["system"]
    assert ("tool_choice",) == request.dropped


# --- the answer's format ------------------------------------------------------------------------------------------


def test_a_schema_is_enforced_by_the_models_grammar() -> None:
    """Where it has one, tools beside it or not."""
    request = converse({"response_format": FORMAT, "tools": TOOLS}, family=family_of(QWEN))
    definition = request.payload["outputConfig"]["textFormat"]["structure"]["jsonSchema"]

    assert (SCHEMA, "w") == (json.loads(definition["schema"]), definition["name"])
    assert ((), None) == (request.dropped, request.unwraps_tool)


def test_elsewhere_a_tool_stands_for_it() -> None:
    request = converse({"response_format": FORMAT})

    assert "json_answer" == request.unwraps_tool
    assert {"tool": {"name": "json_answer"}} == request.payload["toolConfig"]["toolChoice"]
    assert () == request.dropped


@pytest.mark.parametrize(
    ("fields", "family", "param"),
    [
        ({"response_format": FORMAT}, FAMILIES["llama"], "response_format"),
        ({"response_format": {"type": "json_object"}}, family_of(QWEN), "response_format"),
        ({"guided_json": SCHEMA}, FAMILIES["llama"], "guided_json"),
    ],
)
def test_else_it_is_asked_for_and_named(fields: dict[str, Any], family: Family, param: str) -> None:
    """No one repairs it, so the caller gets the reason."""
    request = converse(fields, family=family)

    assert request.payload["system"][0]["text"].startswith("Answer with ")
    assert ((param,), None) == (request.dropped, request.unwraps_tool)


def test_beside_tools_it_is_asked_for_of_answers_only() -> None:
    request = converse({"response_format": FORMAT, "tools": TOOLS})

    assert request.payload["system"][0]["text"].startswith("When you call no tool: Answer with JSON")


# --- thoughts and stops -------------------------------------------------------------------------------------------


def test_effort_and_top_k_are_the_models_own_fields() -> None:
    request = converse({"reasoning_effort": "low", "top_k": 5}, family=family_of("us.amazon.nova-2-lite-v1:0"))

    assert {
        "inferenceConfig": {"topK": 5},
        "reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"},
    } == request.payload["additionalModelRequestFields"]


def test_claude_thinks_without_sampling() -> None:
    request = converse({"reasoning_effort": "low", "temperature": 0.5}, family=family_of(CLAUDE_4_5))

    assert {"thinking": {"type": "enabled", "budget_tokens": 1024}} == request.payload["additionalModelRequestFields"]
    assert {"maxTokens": 4096} == request.payload["inferenceConfig"]
    assert ("temperature",) == request.dropped


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": CALLED},
        {"tools": TOOLS, "tool_choice": "required"},
        {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False},
        {"max_tokens": 500},
    ],
)
def test_claude_does_not_think_where_it_may_not(fields: dict[str, Any]) -> None:
    """After a call it would have to be shown what it thought before; a forced call and thoughts exclude each other."""
    request = converse(fields | {"chat_template_kwargs": {"enable_thinking": True}}, family=family_of(CLAUDE_4_5))

    assert "thinking" not in request.payload.get("additionalModelRequestFields", {})
    assert ("chat_template_kwargs",) == request.dropped


THOUGHT_OF: list[dict[str, Any]] = [
    {"role": "user", "content": "How is the weather in Paris?"},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "I had better ask.",
        "thinking_blocks": [{"type": "thinking", "thinking": "I had better ask.", "signature": "c2ln"}],
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
]


@pytest.mark.parametrize(
    ("model_id", "kept"),
    [
        (CLAUDE_4_5, {"text": "I had better ask.", "signature": "c2ln"}),
        ("moonshot.kimi-k2-thinking", {"text": "I had better ask."}),
        ("minimax.minimax-m2.5", {"text": "I had better ask."}),
        (QWEN, None),
        ("us.meta.llama3-3-70b-instruct-v1:0", None),
    ],
)
def test_thoughts_of_the_history_go_to_who_needs_them(model_id: str, kept: dict[str, Any] | None) -> None:
    """At the head of the turn; else they are left out, and said to be."""
    request = converse({"messages": THOUGHT_OF}, family=family_of(model_id))
    first = request.payload["messages"][1]["content"][0]

    assert kept == first.get("reasoningContent", {}).get("reasoningText")
    assert (kept is None) == ("messages.reasoning_content" in request.dropped)


def test_claude_thinks_about_a_call_before_which_it_is_shown_its_thoughts() -> None:
    """It would refuse to without them."""
    request = converse({"messages": THOUGHT_OF, "reasoning_effort": "low"}, family=family_of(CLAUDE_4_5))

    assert "thinking" in request.payload["additionalModelRequestFields"]


def test_thoughts_that_are_refused_are_left_out() -> None:
    """The question is the same without them."""
    request = converse({"messages": THOUGHT_OF}, family=FAMILIES["kimi"])
    mended = request.without(Unsupported("messages.1.content.0.reasoningContent"))

    assert mended is not None
    assert [["toolUse"]] == [[*block] for block in mended.payload["messages"][1]["content"]]
    assert ("messages.reasoning_content",) == mended.dropped
    assert mended.without(Unsupported("messages.1.content.0.reasoningContent")) is None


def test_stops_that_a_model_does_not_take_are_the_gateways() -> None:
    request = converse({"stop": ["a", "b"]}, family=FAMILIES["gpt-oss"])

    assert (("a", "b"), {"maxTokens": 4096}) == (request.stops, request.payload["inferenceConfig"])


# --- second tries -------------------------------------------------------------------------------------------------


def test_a_request_can_do_without_what_the_model_does_not_support() -> None:
    """Twice, if Bedrock names another; each time the caller is reported, or the gateway sees to it."""
    fields = {"temperature": 0.5, "stop": list("abcdef"), "seed": 1}
    first = converse(fields).without(Unsupported("temperature"))
    assert first is not None
    second = first.without(Unsupported("stopSequences"))

    assert second is not None
    assert (("seed", "temperature"), ("e", "f")) == (first.dropped, first.stops)
    assert (("seed", "temperature"), tuple("abcdef")) == (second.dropped, second.stops)
    assert {"maxTokens": 4096} == second.payload["inferenceConfig"]
    assert second.without(Unsupported("stopSequences")) is None
    assert second.without(Unsupported("messages")) is None


def test_a_schema_without_its_forced_tool_is_still_asked_for() -> None:
    request = converse({"response_format": FORMAT}).without(Unsupported("toolConfig.toolChoice.tool"))

    assert request is not None
    assert ("json_answer", ("response_format",)) == (request.unwraps_tool, request.dropped)
    assert [{"text": "You must call the tool json_answer."}] == request.payload["system"]


# --- bad bodies ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b'{"messages":[{"role":"user","content":"\xff"}]}',
        b'{"messages":' * 101 + b"{}" + b"}" * 101,
    ],
)
def test_a_body_that_is_no_object_is_malformed(body: bytes) -> None:
    """Not JSON, not UTF-8, not an object, or deeper than anyone follows."""
    with pytest.raises(MalformedBody):
        to_converse(body, default_max_tokens=1)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("messages", []),
        ("messages", None),
        ("messages", [*HELLO, {"role": "assistant", "content": "Once upon"}]),
        ("max_tokens", 0),
        ("temperature", "hot"),
        ("stop", 7),
        ("n", 2),
        ("logprobs", True),
        ("tool_choice", "required"),
        ("response_format", {"type": "regex"}),
        ("reasoning_effort", "much"),
    ],
)
def test_what_cannot_be_served_is_refused_with_its_field(field: str, value: object) -> None:
    with pytest.raises(InvalidField) as caught:
        converse({field: value})

    assert field == caught.value.param


# --- everything at once -------------------------------------------------------------------------------------------


def _texts(value: object) -> str:
    """All strings in *value*, one after the other, also those inside strings of JSON."""
    if isinstance(value, str):
        return value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return "\n".join(_texts(one) for one in inner)


def _said(body: dict[str, Any]) -> list[str]:
    """What is said in *body*, thoughts apart: none of it may be lost."""
    said: list[Any] = []
    for message in body["messages"]:
        content = message.get("content") or []
        said += [content] if isinstance(content, str) else [part.get("text") or part.get("refusal") for part in content]
        said.append(message.get("refusal"))
    return [text for text in said if isinstance(text, str) and text.strip()]


def _calls(body: dict[str, Any]) -> list[str]:
    return [
        call["name"]
        for message in body["messages"]
        for call in [
            *(call["function"] for call in message.get("tool_calls", [])),
            *([message["function_call"]] if "function_call" in message else []),
        ]
    ]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(body=bodies(), model_id=st.sampled_from(MODEL_IDS))
def test_every_chat_that_is_served_is_a_request_without_fault(body: dict[str, Any], model_id: str) -> None:
    """Valid by AWS's own model and the rules beside it; nothing that was said is lost, and every call is there."""
    try:
        request = to_converse(
            msgspec.json.encode(body),
            default_max_tokens=4096,
            max_tokens_limit=8192,
            context_tokens=32_000,
            family=family_of(model_id),
        )
    except InvalidField as error:
        if error.param not in ("messages", "tools"):  # images, files or tools, and a model that has no use for them
            raise
        return
    payload = request.payload
    blocks = [block for turn in payload["messages"] for block in turn["content"]]
    uses = [request.names.original(block["toolUse"]["name"]) for block in blocks if "toolUse" in block]
    is_reported = body.get("tool_choice") == "none" or not family_of(model_id).takes_tools

    assert [] == faults(payload, model_id)
    assert all(text in _texts(payload) for text in _said(body))
    assert ([] if is_reported else _calls(body)) == uses
    assert 1 <= payload["inferenceConfig"]["maxTokens"] <= 8192
    json.dumps(payload, ensure_ascii=False).encode()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(body=spoilt_bodies(), model_id=st.sampled_from(MODEL_IDS))
def test_a_chat_with_junk_in_it_is_refused_or_a_request_without_fault(body: dict[str, Any], model_id: str) -> None:
    """Never anything else: no such body is an error of ours, or one for Bedrock to find."""
    try:
        request = to_converse(msgspec.json.encode(body), default_max_tokens=4096, family=family_of(model_id))
    except ClientError:
        return

    assert [] == faults(request.payload, model_id)

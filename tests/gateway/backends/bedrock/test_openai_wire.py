import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from gateway.backends.backend import Call
from gateway.backends.bedrock.errors import BedrockFault
from gateway.backends.bedrock.openai_wire import OpenAIQuestion, OpenAITranslator, OpenAIWire
from gateway.backends.bedrock.refusals import Unsupported
from gateway.backends.bedrock.wire import Heading
from gateway.protocol.errors import InvalidField, MalformedBody, ReplyBroken
from tests.fakes.bedrock import Says, Use

HEADING = Heading("chatcmpl-own", 1, "tiny", "reasoning_content")
MESSAGES = [{"role": "user", "content": "hello"}]


def question(*, most: int | None = None, **fields: Any) -> OpenAIQuestion:
    body = {"model": "tiny", "messages": MESSAGES, **fields}
    streams = bool(fields.get("stream"))
    call = Call(b"POST", b"/v1/chat/completions", [], msgspec.json.encode(body), streams=streams, model="tiny")
    return OpenAIWire("openai.gpt-oss-20b-1:0", default_max_tokens=4096, max_output_tokens=most).question(call)


def completion(answer: object) -> Any:
    text = question().answer(msgspec.json.encode(answer), HEADING)
    ChatCompletion.model_validate_json(text)
    return msgspec.json.decode(text)


def answer(**message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {"id": "chatcmpl-x", "object": "chat.completion", "created": 7, "model": "m", "choices": [choice]}


def message(**fields: Any) -> Any:
    return completion(answer(**fields))["choices"][0]["message"]


def sse(*chunks: object) -> bytes:
    return b"".join(b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks)


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": [choice]}


def translated(*pieces: bytes) -> bytes:
    """All that comes of a stream that ends where *pieces* do."""
    translator, shown = OpenAITranslator(HEADING), b""
    for piece in pieces:
        translator.feed(piece)
        while (said := translator.next()) is not None and not translator.is_over:
            assert not isinstance(said, BedrockFault)
            shown += said
    return shown + translator.end()


def chunks(stream: bytes) -> list[Any]:
    *events, done, after = stream.split(b"\n\n")
    assert (b"data: [DONE]", b"") == (done, after)
    for event in events:
        ChatCompletionChunk.model_validate_json(event.removeprefix(b"data: "))
    return [msgspec.json.decode(event.removeprefix(b"data: ")) for event in events]


def joined(stream: bytes, field: str) -> str:
    found = [chunk["choices"][0]["delta"].get(field) for chunk in chunks(stream) if chunk["choices"]]
    return "".join(text or "" for text in found)


# --- what goes out


def test_a_body_goes_out_nearly_as_it_came() -> None:
    """Under Bedrock's id and with an output limit; tools, history and schema stay what they are."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}}

    asked = question(tools=tools, tool_choice="auto", response_format=schema, stream=True, temperature=1.5)

    assert {
        "model": "openai.gpt-oss-20b-1:0",
        "messages": MESSAGES,
        "tools": tools,
        "tool_choice": "auto",
        "response_format": schema,
        "stream": True,
        "temperature": 1.5,
        "max_completion_tokens": 4096,
    } == asked.payload
    assert ("/openai/v1/chat/completions", True, ()) == (asked.path, asked.streams, asked.dropped)


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, {"max_completion_tokens": 4096}),
        ({"max_tokens": 7}, {"max_tokens": 7}),
        ({"max_completion_tokens": 7}, {"max_completion_tokens": 7}),
        ({"max_completion_tokens": 7, "max_tokens": 9}, {"max_completion_tokens": 7}),
        ({"max_tokens": 70_000}, {"max_tokens": 16_384}),
        ({"max_tokens": None}, {"max_completion_tokens": 4096}),
    ],
)
def test_an_output_limit_always_goes_out(fields: dict[str, Any], limit: dict[str, int]) -> None:
    """One, under the caller's name for it, and no more than the model takes."""
    payload = question(most=16_384, **fields).payload

    assert limit == {name: value for name, value in payload.items() if "max" in name}


@pytest.mark.parametrize("value", [0, -1, True, "7", 1.5])
def test_a_limit_that_is_not_one_is_refused(value: object) -> None:
    """Before anything is sent."""
    with pytest.raises(InvalidField) as caught:
        question(max_tokens=value)

    assert "max_tokens" == caught.value.param


def test_what_only_an_engine_knows_is_dropped_by_name() -> None:
    asked = question(min_p=0.1, cache_salt="s", chat_template_kwargs={}, store=True, n=1, user="u", logprobs=False)

    assert ("cache_salt", "chat_template_kwargs", "min_p", "store") == asked.dropped
    assert {"model", "messages", "max_completion_tokens"} == set(asked.payload)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n", 2), ("logprobs", True), ("logit_bias", {"1": 5}), ("guided_regex", "a+"), ("continue_final_message", True)],
)
def test_what_cannot_be_served_is_refused(name: str, value: object) -> None:
    """Rather than an answer that is silently another one."""
    fields: dict[str, Any] = {name: value}
    with pytest.raises(InvalidField) as caught:
        question(**fields)

    assert name == caught.value.param


@pytest.mark.parametrize(("tier", "sent"), [("flex", "flex"), ("default", "default"), ("auto", None), ("scale", None)])
def test_a_service_tier_is_sent_where_bedrock_has_it(tier: str, sent: str | None) -> None:
    """``auto`` is what nothing says."""
    assert sent == question(service_tier=tier).payload.get("service_tier")


def test_thoughts_in_the_history_stay_here() -> None:
    """They are another model's, and no field of OpenAI's."""
    history = [{"role": "assistant", "content": "4", "reasoning_content": "hm", "reasoning": "hm"}, *MESSAGES]

    assert [{"role": "assistant", "content": "4"}, *MESSAGES] == question(messages=history).payload["messages"]
    assert ["odd"] == question(messages=["odd"]).payload["messages"]
    assert "odd" == question(messages="odd").payload["messages"]


def test_a_body_that_is_no_object_is_malformed() -> None:
    call = Call(b"POST", b"/v1/chat/completions", [], b"[]", streams=False, model="tiny")

    with pytest.raises(MalformedBody):
        OpenAIWire("m", default_max_tokens=1).question(call)


def test_a_field_that_the_model_does_not_know_can_be_left_out() -> None:
    """If the answer is the same kind of answer without it; then it is reported like any that is dropped."""
    asked = question(temperature=0.5, seed=1, stop=["x"], min_p=1)
    mended = asked.without(Unsupported("temperature"))

    assert mended is not None
    assert (("min_p", "temperature"), False) == (mended.dropped, "temperature" in mended.payload)
    assert [None, None, None] == [asked.without(Unsupported(name)) for name in ("messages", "stop", "top_p")]


def test_a_model_needs_an_id() -> None:
    with pytest.raises(ValueError, match="model id"):
        OpenAIWire("", default_max_tokens=1)


# --- whole answers


def test_a_whole_answer_is_the_callers() -> None:
    """Under the caller's name for the model; id, time and usage stay Bedrock's, and unknown fields too."""
    usage = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
    found = completion({**answer(content="Four."), "usage": usage, "service_tier": "default"})

    assert ("tiny", "chatcmpl-x", 7, "default", usage) == tuple(
        found[name] for name in ("model", "id", "created", "service_tier", "usage")
    )
    assert {"role": "assistant", "content": "Four."} == found["choices"][0]["message"]


@pytest.mark.parametrize(
    "said",
    [
        {"content": "<reasoning>hm</reasoning>Four."},
        {"content": "Four.", "reasoning": "hm"},
        {"content": "Four.", "reasoning_content": "hm"},
        {"content": "<reasoning>m</reasoning>Four.", "reasoning": "h"},
    ],
)
def test_thoughts_go_where_they_belong(said: dict[str, str]) -> None:
    """In the content, or in whichever field: they come out in the one that is set."""
    assert {"role": "assistant", "content": "Four.", "reasoning_content": "hm"} == message(**said)


def test_content_is_null_only_beside_calls() -> None:
    """A small limit makes answers without content; they have an empty one."""
    calls = [{"id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{}"}}]

    assert "" == message(content=None)["content"]
    assert "" == message(content="<reasoning>hm")["content"]
    assert None is message(content="", tool_calls=calls)["content"]
    assert calls == message(content=None, tool_calls=calls)["tool_calls"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"Output":{"__type":"com.amazon.coral.service#UnknownOperationException"},"Version":"1.0"}',
        b'{"choices":[]}',
        b'{"choices":[{"message":null}]}',
        b"[]",
        b"<html>",
        b"",
    ],
)
def test_a_200_without_an_answer_is_broken(body: bytes) -> None:
    """Bedrock says 200 to a path that it does not know."""
    with pytest.raises(ReplyBroken, match="200"):
        question().answer(body, HEADING)


# --- streams


SAID = Says(("Four", "."), reasoning="2 and 2", uses=(Use("f", {"x": 1}),))


def test_a_stream_is_the_callers() -> None:
    """Thoughts in their field, calls as they came, the caller's name for the model, one finish, the usage."""
    stream = translated(*SAID.to_chunks("m"))

    assert ("2 and 2", "Four.") == (joined(stream, "reasoning_content"), joined(stream, "content"))
    assert {("tiny", "chatcmpl-0d5f0e4c")} == {(chunk["model"], chunk["id"]) for chunk in chunks(stream)}
    finishes = [chunk["choices"][0]["finish_reason"] for chunk in chunks(stream) if chunk["choices"]]
    assert ["tool_calls"] == [finish for finish in finishes if finish]
    assert 16 == chunks(stream)[-1]["usage"]["total_tokens"]
    assert [{"name": "f", "arguments": '{"x":1}'}] == [
        call["function"]
        for chunk in chunks(stream)
        if chunk["choices"]
        for call in chunk["choices"][0]["delta"].get("tool_calls", [])
    ]


@given(st.lists(st.integers(0, 2000), max_size=8))
def test_how_the_network_cuts_a_stream_makes_no_difference(cuts: list[int]) -> None:
    """Inside a line, inside a character, inside the blank line between events."""
    whole = b"".join(Says(("Grüße", " 世界"), reasoning="hm 世").to_chunks("m"))
    borders = sorted({0, len(whole), *[min(cut, len(whole)) for cut in cuts]})

    pieces = [whole[start:end] for start, end in itertools.pairwise(borders)]

    assert translated(whole) == translated(*pieces) == translated(*[bytes([byte]) for byte in whole])


def test_the_role_goes_out_with_the_first_thing_worth_reading() -> None:
    """Until then another backend can be asked; it is said once."""
    translator = OpenAITranslator(HEADING)
    translator.feed(sse(delta(role="assistant", content=""), delta(content=""), delta(content="4"), delta("stop")))

    said = [translator.next() for _ in range(4)]

    assert [b"", b""] == said[:2]
    assert isinstance(said[2], bytes)
    first = [msgspec.json.decode(event.removeprefix(b"data: ")) for event in said[2].split(b"\n\n")[:-1]]
    assert [{"role": "assistant", "content": ""}, {"content": "4"}] == [chunk["choices"][0]["delta"] for chunk in first]


def test_a_tag_cut_over_chunks_is_seen() -> None:
    tagged = sse(*[delta(content=letter) for letter in "<reasoning>hm</reasoning>4"], delta("stop"))
    almost = sse(*[delta(content=letter) for letter in "<reason"], delta("length"))

    assert ("hm", "4") == (joined(translated(tagged), "reasoning_content"), joined(translated(tagged), "content"))
    assert "<reason" == joined(translated(almost), "content")


def test_thoughts_in_a_field_of_their_own_are_renamed() -> None:
    stream = translated(sse(delta(reasoning="hm"), delta(content="4"), delta("stop")))

    assert ("hm", "4") == (joined(stream, "reasoning_content"), joined(stream, "content"))


def test_lines_may_end_as_in_http_and_comments_say_nothing() -> None:
    """Both are allowed by the format."""
    said = sse(delta(content="4"), delta("stop")).replace(b"\n", b"\r\n")

    assert "4" == joined(translated(b": ping\n\n" + said + b"data:[DONE]\r\n\r\n"), "content")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"type": "rate_limit_error", "message": "slow down"}, 429),
        ({"type": "server_error", "message": "boom"}, 502),
        ({"message": "boom", "code": 503}, 503),
        ({"message": "boom", "code": "429"}, 429),
        ({"type": "ThrottlingException", "message": "slow down"}, 429),
        ({}, 502),
    ],
)
def test_an_error_in_the_stream_is_a_fault(error: dict[str, Any], status: int) -> None:
    """With the status that its type or code stands for."""
    translator = OpenAITranslator(HEADING)
    translator.feed(sse({"error": error}))

    fault = translator.next()

    assert isinstance(fault, BedrockFault)
    assert status == fault.status


@pytest.mark.parametrize(
    "body",
    [
        b"",
        sse(delta(content="4")),
        sse(delta(content="4"), delta("stop"))[:-1],
        sse(delta(content="4")) + b"data: [DONE]\n\n",
        sse(delta("stop")) + b"data: [DO",
        sse({"object": "x"}),
        b"data: {\n\n",
        b"data: []\n\n",
    ],
)
def test_a_stream_that_is_cut_or_damaged_is_broken(body: bytes) -> None:
    """There is no end without a finish reason, nor in the middle of an event."""
    with pytest.raises(ReplyBroken):
        translated(body)


def test_after_the_finish_only_usage_is_missing() -> None:
    """Then the end may be said without it, and without the ``[DONE]`` of Bedrock's own."""
    translator = OpenAITranslator(HEADING)
    translator.feed(sse(delta(content="4")))
    translator.next()
    before = translator.awaits_usage
    translator.feed(sse(delta("stop")))
    translator.next()

    assert (False, True, False) == (before, translator.awaits_usage, translator.is_over)
    assert b"data: [DONE]\n\n" == translator.end()


def of(model_id: str, **fields: Any) -> OpenAIQuestion:
    body = {"model": "tiny", "messages": MESSAGES, **fields}
    streams = bool(fields.get("stream"))
    call = Call(b"POST", b"/v1/chat/completions", [], msgspec.json.encode(body), streams=streams, model="tiny")
    return OpenAIWire(model_id, default_max_tokens=4096).question(call)


@pytest.mark.parametrize(
    ("model_id", "level", "sent", "dropped"),
    [
        ("openai.gpt-oss-20b-1:0", "none", "low", ()),
        ("openai.gpt-oss-20b-1:0", "minimal", "low", ()),
        ("openai.gpt-oss-20b-1:0", "xhigh", "high", ()),
        ("deepseek.v3.2", "medium", "medium", ()),
        ("deepseek.v3.2", "none", None, ()),
        ("zai.glm-5", "high", None, ("reasoning_effort",)),
        ("somebody.elses", "xhigh", "xhigh", ()),
    ],
)
def test_effort_is_said_in_words_that_the_model_knows(
    model_id: str, level: str, sent: str | None, dropped: tuple[str, ...]
) -> None:
    asked = of(model_id, reasoning_effort=level)

    assert (sent, dropped) == (asked.payload.get("reasoning_effort"), asked.dropped)


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": []},
        {"tools": [], "tool_choice": "auto", "parallel_tool_calls": False},
        {"tools": [], "tool_choice": "none"},
        {"functions": [], "function_call": "auto"},
    ],
)
def test_nothing_is_said_of_tools_where_there_are_not(fields: dict[str, Any]) -> None:
    """Empty lists are refused, and so is what is said of their members."""
    assert not of("zai.glm-5", **fields).payload.keys() & {*fields}


def test_a_call_that_is_forced_needs_a_tool() -> None:
    """There is nothing to call."""
    with pytest.raises(InvalidField, match="tool_choice"):
        of("zai.glm-5", tools=[], tool_choice="required")


def test_schemas_of_tools_are_those_of_objects() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": None}}}

    assert {"type": "object", "properties": {}} == of("zai.glm-5", tools=[tool]).payload["tools"][0]["function"][
        "parameters"
    ]


def test_options_of_a_stream_go_with_a_stream_only() -> None:
    """They are refused beside a whole answer."""
    options = {"stream_options": {"include_usage": True}}

    assert [False, True] == ["stream_options" in of("zai.glm-5", stream=on, **options).payload for on in (False, True)]


def test_stops_go_out_where_the_model_takes_them() -> None:
    """Four at most; the gateway finds the rest, and all of gpt-oss, which takes none."""
    stops = ["a", "", "b", "c", "d", "e", "a"]
    glm, gpt_oss = of("zai.glm-5", stop=stops), of("openai.gpt-oss-20b-1:0", stop="x")
    refused = glm.without(Unsupported("stop"))

    assert (["a", "b", "c", "d"], ("e",)) == (glm.payload["stop"], glm.stops)
    assert (False, ("x",)) == ("stop" in gpt_oss.payload, gpt_oss.stops)
    assert refused is not None
    assert (False, ("a", "b", "c", "d", "e"), ()) == ("stop" in refused.payload, refused.stops, refused.dropped)


def test_the_gateway_ends_a_whole_answer_at_a_stop() -> None:
    """Not within thoughts."""
    said = answer(content="<reasoning>STOP</reasoning>Four. STOP Five.", tool_calls=[])
    choice = msgspec.json.decode(question(stop="STOP").answer(msgspec.json.encode(said), HEADING))["choices"][0]

    assert ("Four. ", "STOP", "stop") == (
        choice["message"]["content"],
        choice["message"]["reasoning_content"],
        choice["finish_reason"],
    )


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_gateway_ends_a_stream_at_a_stop(size: int) -> None:
    """However it is cut; usage still comes, and no second finish."""
    text = "<think>STOP</think>\n\nFour. STOP Five."
    pieces = [delta(content=text[at : at + size]) for at in range(0, len(text), size)]
    usage = {**delta(), "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}
    translator, shown = OpenAITranslator(HEADING, stops=("STOP",)), b""
    translator.feed(sse(delta(role="assistant"), *pieces, delta("length"), usage) + b"data: [DONE]\n\n")
    while not translator.is_over and (said := translator.next()) is not None:
        assert isinstance(said, bytes)
        shown += said
    chunks = [msgspec.json.decode(line[6:]) for line in shown.splitlines() if line]
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]

    assert "Four. " == "".join(choice["delta"].get("content", "") for choice in choices)
    assert "STOP" == "".join(choice["delta"].get("reasoning_content", "") for choice in choices)
    assert ["stop"] == [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    assert "usage" in chunks[-1]
    assert b"data: [DONE]\n\n" == translator.end()

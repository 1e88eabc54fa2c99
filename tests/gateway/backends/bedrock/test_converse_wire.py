from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.backends.backend import Call
from gateway.backends.bedrock.converse_wire import ConverseQuestion, ConverseTranslator, ConverseWire
from gateway.backends.bedrock.request import ConverseRequest
from gateway.backends.bedrock.stream import ChunkWriter
from gateway.backends.bedrock.tool_names import ToolNames
from gateway.backends.bedrock.wire import Heading
from gateway.protocol.errors import ReplyBroken
from tests.fakes.bedrock import MESSAGE_START, Says, Use, event, exception, text_delta

HEADING = Heading("chatcmpl-1", 1, "tiny", "reasoning_content")
ARN = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"


def call(*, streams: bool = False) -> Call:
    body = msgspec.json.encode({"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "seed": 1})
    return Call(b"POST", b"/v1/chat/completions", [], body, streams=streams, model="tiny")


def asked(*, streams: bool = False, replays: bool = False, **about_the_answer: Any) -> ConverseQuestion:
    request = ConverseRequest(payload={}, dropped=(), wants_usage=True, **about_the_answer)
    return ConverseQuestion(request, "m", streams=streams, replays=replays)


def body(said: Says) -> bytes:
    return msgspec.json.encode(said.to_answer())


def chunks(stream: bytes) -> list[Any]:
    *events, done, after = stream.split(b"\n\n")
    assert (b"data: [DONE]", b"") == (done, after)
    return [msgspec.json.decode(event.removeprefix(b"data: ")) for event in events]


@pytest.mark.parametrize(
    ("model_id", "streams", "path"),
    [
        ("qwen.qwen3-32b-v1:0", False, "/model/qwen.qwen3-32b-v1%3A0/converse"),
        ("qwen.qwen3-32b-v1:0", True, "/model/qwen.qwen3-32b-v1%3A0/converse-stream"),
        (
            ARN,
            False,
            "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc/converse",
        ),
    ],
)
def test_the_path_names_model_and_operation(model_id: str, path: str, *, streams: bool) -> None:
    """The id is one segment, encoded once."""
    question = ConverseWire(model_id, default_max_tokens=7).question(call(streams=streams))

    assert (path, streams, ("seed",)) == (question.path, question.streams, question.dropped)
    assert 7 == question.payload["inferenceConfig"]["maxTokens"]


@pytest.mark.parametrize("streams", [False, True])
def test_a_guardrail_goes_along_with_the_question(streams: bool) -> None:
    """A stream is looked at before it is sent."""
    shown = call(streams=streams).changed(guardrail=("gr1", "2"))
    payload = ConverseWire("m", default_max_tokens=9).question(shown).payload

    mode = {"streamProcessingMode": "sync"} if streams else {}
    assert {"guardrailIdentifier": "gr1", "guardrailVersion": "2", **mode} == payload["guardrailConfig"]
    assert "guardrailConfig" not in ConverseWire("m", default_max_tokens=9).question(call(streams=streams)).payload


def test_what_makes_no_wire_stops_the_start() -> None:
    """An id that cannot stand in a path, or a family that there is not."""
    with pytest.raises(ValueError, match="model id"):
        ConverseWire("a%3Ab", default_max_tokens=1)
    with pytest.raises(ValueError, match="martian"):
        ConverseWire("m", default_max_tokens=1, family="martian")


def test_the_answer_is_read_by_the_terms_of_the_question() -> None:
    """Names of tools, the tool that stands for a schema, and stop strings."""
    names = ToolNames(["files.read"])
    said = Says((), uses=(Use(names.sent("files.read"), {"path": "x"}),), stop_reason="tool_use")
    wrapped = Says((), uses=(Use("json", {"a": 1}),), stop_reason="tool_use")

    called = msgspec.json.decode(asked(names=names).answer(body(said), HEADING))
    unwrapped = msgspec.json.decode(asked(unwraps_tool="json").answer(body(wrapped), HEADING))
    stopped = msgspec.json.decode(asked(stops=(" wor",)).answer(body(Says()), HEADING))

    assert "files.read" == called["choices"][0]["message"]["tool_calls"][0]["function"]["name"]
    assert '{"a":1}' == unwrapped["choices"][0]["message"]["content"]
    assert "Hello" == stopped["choices"][0]["message"]["content"]


def test_a_whole_answer_is_replayed_as_a_stream() -> None:
    """The same chunks as those of a stream of the same answer, but for how the text is cut."""
    said = Says(("Well.",), reasoning="hm", uses=(Use("f", {"x": 1}), Use("g", id="tooluse_2")), stop_reason="tool_use")

    found = chunks(asked(replays=True).answer(body(said), HEADING))

    deltas = [(chunk["choices"][0]["delta"], chunk["choices"][0]["finish_reason"]) for chunk in found[:-1]]
    assert [
        ({"role": "assistant", "content": ""}, None),
        ({"reasoning_content": "hm"}, None),
        ({"content": "Well."}, None),
        (
            {
                "tool_calls": [
                    {"index": 0, "id": "tooluse_1", "type": "function", "function": {"name": "f", "arguments": ""}}
                ]
            },
            None,
        ),
        ({"tool_calls": [{"index": 0, "function": {"arguments": '{"x":1}'}}]}, None),
        (
            {
                "tool_calls": [
                    {"index": 1, "id": "tooluse_2", "type": "function", "function": {"name": "g", "arguments": ""}}
                ]
            },
            None,
        ),
        ({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}, None),
        ({}, "tool_calls"),
    ] == deltas
    assert 16 == found[-1]["usage"]["total_tokens"]


def test_a_broken_whole_answer_is_not_replayed() -> None:
    """Neither Bedrock's 200 to an unknown path, nor malformed output."""
    for broken in (b'{"Output":{}}', body(Says(stop_reason="malformed_tool_use"))):
        with pytest.raises(ReplyBroken):
            asked(replays=True).answer(broken, HEADING)


# --- the frames


def run(translator: ConverseTranslator, data: bytes) -> list[Any]:
    """Everything that is said of *data* until more is needed."""
    translator.feed(data)
    said: list[Any] = []
    while not translator.is_over and (piece := translator.next()) is not None:
        said.append(piece)
    return said


def test_a_question_reads_its_own_stream() -> None:
    """Frames in, chunks out, by the terms of the question."""
    translator = asked(streams=True, stops=("wor",)).translator(HEADING)
    said = run(translator, b"".join(Says().to_frames()))

    assert "Hello " == "".join(
        chunk["choices"][0]["delta"].get("content", "")
        for chunk in chunks(b"".join([*said, translator.end()]))
        if chunk["choices"]
    )


def test_after_the_end_of_the_text_only_usage_is_missing() -> None:
    """Half a frame behind it is waited for as long as any; behind a stop string of ours nothing is."""
    stop = event("messageStop", {"stopReason": "end_turn"})
    writer = ChunkWriter(HEADING, includes_usage=False)
    translator = ConverseTranslator(writer)
    run(translator, MESSAGE_START + text_delta("Hello"))
    before = translator.awaits_usage
    run(translator, stop)
    after = translator.awaits_usage
    run(translator, stop[:10])
    stopped = asked(streams=True, stops=("lo",)).translator(HEADING)
    run(stopped, MESSAGE_START + text_delta("Hello") + stop[:10])

    assert (False, True, False, True) == (before, after, translator.awaits_usage, stopped.awaits_usage)


@pytest.mark.parametrize("rest", [exception("throttlingException", "no"), b"\x00" * 16, event("x", {})[:-1] + b"\x00"])
def test_a_failure_behind_a_stop_string_of_ours_is_no_ones_business(rest: bytes) -> None:
    """The answer was complete; the stream ends as such."""
    translator = asked(streams=True, stops=("lo",)).translator(HEADING)
    said = run(translator, MESSAGE_START + text_delta("Hello") + rest)

    assert translator.is_over
    assert "stop" == chunks(b"".join([*said, translator.end()]))[-1]["choices"][0]["finish_reason"]


# --- whole, replayed and streamed


LETTERS = st.text("abAB ", max_size=8)
USES = st.builds(
    Use,
    name=st.sampled_from(["look_up", "json", "files_read"]),
    input=st.dictionaries(st.text("xyü", min_size=1, max_size=3), st.integers() | LETTERS, max_size=3),
    id=st.sampled_from(["tooluse_1", "tooluse_2", "functions.f:0"]),
)
SAID = st.builds(
    Says,
    texts=st.lists(LETTERS.filter(bool), max_size=4).map(tuple),
    reasoning=LETTERS,
    uses=st.lists(USES, max_size=3).map(tuple),
    empty_block_first=st.booleans(),
    stop_reason=st.sampled_from(["end_turn", "tool_use", "max_tokens", "content_filtered", "heard_of_never"]),
    usage=st.sampled_from([None, {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}]),
)
TERMS = st.fixed_dictionaries(
    {
        "names": st.just(ToolNames(["files.read", "look_up"])),
        "unwraps_tool": st.sampled_from([None, "json"]),
        "stops": st.lists(st.text("ab", min_size=1, max_size=3), max_size=2).map(tuple),
    }
)


def gathered(stream: bytes) -> dict[str, Any]:
    """What the chunks of a stream come to, as a completion says it."""
    found: dict[str, Any] = {"content": "", "reasoning": "", "calls": [], "finish": [], "usage": None}
    for chunk in chunks(stream):
        if not chunk["choices"]:
            found["usage"] = chunk["usage"]
            continue
        (choice,) = chunk["choices"]
        found["content"] += choice["delta"].get("content", "")
        found["reasoning"] += choice["delta"].get("reasoning_content", "")
        found["finish"] += [choice["finish_reason"]] if choice["finish_reason"] else []
        for call in choice["delta"].get("tool_calls", []):
            if "id" in call:
                assert len(found["calls"]) == call["index"]
                found["calls"].append([call["id"], call["function"]["name"], ""])
            found["calls"][call["index"]][2] += call["function"]["arguments"]
    return found


def shown(completion: bytes) -> dict[str, Any]:
    answer = msgspec.json.decode(completion)
    (choice,) = answer["choices"]
    message = choice["message"]
    return {
        "content": message["content"] or "",
        "reasoning": message.get("reasoning_content", ""),
        "calls": [
            [call["id"], call["function"]["name"], call["function"]["arguments"]]
            for call in message.get("tool_calls", [])
        ],
        "finish": [choice["finish_reason"]],
        "usage": answer.get("usage"),
    }


def with_parsed_arguments(found: dict[str, Any]) -> dict[str, Any]:
    """JSON may be written in more than one way; that of the answer that a tool wraps, too."""
    calls = [[call_id, name, msgspec.json.decode(arguments)] for call_id, name, arguments in found["calls"]]
    content = found["content"]
    if content.startswith("{"):
        content = msgspec.json.decode(content)
    return found | {"calls": calls, "content": content}


@settings(max_examples=60, deadline=None)
@given(SAID, TERMS)
def test_whole_replayed_and_streamed_answers_say_the_same(said: Says, terms: dict[str, Any]) -> None:
    """Text, thoughts, calls, finish and usage, whatever the terms: only the form differs."""
    translator = asked(streams=True, **terms).translator(HEADING)
    streamed = b"".join([*run(translator, b"".join(said.to_frames())), translator.end()])
    whole = shown(asked(**terms).answer(body(said), HEADING))
    replayed = gathered(asked(replays=True, **terms).answer(body(said), HEADING))

    assert whole == replayed
    assert with_parsed_arguments(whole) == with_parsed_arguments(gathered(streamed))

from typing import Any

import msgspec
import pytest
from openai.types.chat import ChatCompletionChunk

from gateway.backends.bedrock.answer import Terms
from gateway.backends.bedrock.frame import StreamEvent
from gateway.backends.bedrock.stream import ChunkWriter
from gateway.backends.bedrock.wire import Heading
from gateway.protocol.errors import ReplyBroken

STOP = StreamEvent("messageStop", {"stopReason": "end_turn"})
METADATA = StreamEvent("metadata", {"usage": {"inputTokens": 11, "outputTokens": 5, "totalTokens": 16}})


def text(content: str) -> StreamEvent:
    return StreamEvent("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": content}, "p": "abc"})


def writer(*, includes_usage: bool = False, **terms: Any) -> ChunkWriter:
    heading = Heading("chatcmpl-1", 1700000000, "tiny", "reasoning_content")
    return ChunkWriter(heading, terms=Terms(**terms), includes_usage=includes_usage)


def chunks(data: bytes) -> list[Any]:
    """The JSON of each server-sent event, every one a chunk in the eyes of OpenAI's SDK."""
    assert data.endswith(b"\n\n") or not data
    found = [line.removeprefix(b"data: ") for line in data.split(b"\n\n")[:-1]]
    for chunk in found:
        if chunk != b"[DONE]":
            ChatCompletionChunk.model_validate_json(chunk, strict=True)
    return ["[DONE]" if chunk == b"[DONE]" else msgspec.json.decode(chunk) for chunk in found]


def deltas(data: bytes) -> list[Any]:
    return [(c["choices"][0]["delta"], c["choices"][0]["finish_reason"]) for c in chunks(data) if c != "[DONE]"]


def test_a_stream_is_openais() -> None:
    """Role first and once, then the text, then the finish reason, then the end."""
    w = writer()
    pieces = [w.write(event) for event in (StreamEvent("messageStart", {}), text("Hel"), text("lo"), STOP, METADATA)]
    pieces.append(w.end(leftover=0))

    assert b"" == pieces[0]
    assert [({"role": "assistant", "content": ""}, None), ({"content": "Hel"}, None)] == deltas(pieces[1])
    assert [({"content": "lo"}, None)] == deltas(pieces[2])
    assert b"" == pieces[3]
    assert [({}, "stop")] == deltas(pieces[4])
    assert b"data: [DONE]\n\n" == pieces[5]


def test_every_chunk_has_the_same_head() -> None:
    """Id, time and the caller's model name do not change within a stream."""
    w = writer(includes_usage=True)
    data = b"".join(w.write(event) for event in (text("a"), STOP, METADATA))

    assert [("chatcmpl-1", "chat.completion.chunk", 1700000000, "tiny")] * 4 == [
        (c["id"], c["object"], c["created"], c["model"]) for c in chunks(data)
    ]


def test_usage_follows_the_finish_when_asked_for() -> None:
    """The usage chunk has no choices and stands between finish and end."""
    w = writer(includes_usage=True)
    w.write(text("a"))
    w.write(STOP)

    finish, usage = chunks(w.write(METADATA))

    assert "stop" == finish["choices"][0]["finish_reason"]
    assert [] == usage["choices"]
    assert {
        "prompt_tokens": 11,
        "completion_tokens": 5,
        "total_tokens": 16,
        "prompt_tokens_details": {"cached_tokens": 0},
    } == usage["usage"]


def test_a_stream_without_metadata_is_finished_at_its_end() -> None:
    """The finish chunk, held for the metadata, comes with the end if there is not one."""
    w = writer(includes_usage=True)
    w.write(text("a"))
    w.write(STOP)

    assert "stop" == chunks(w.end(leftover=0))[0]["choices"][0]["finish_reason"]


def test_empty_text_and_reasoning_come_as_the_models_send_them() -> None:
    """An empty block in front is passed over, reasoning has its own field, signatures are nothing."""
    w = writer()
    reasoning = StreamEvent(
        "contentBlockDelta", {"contentBlockIndex": 1, "delta": {"reasoningContent": {"text": "hm"}}}
    )
    signature = StreamEvent("contentBlockDelta", {"delta": {"reasoningContent": {"signature": "s"}}})

    assert b"" == w.write(text(""))
    assert [({"role": "assistant", "content": ""}, None), ({"reasoning_content": "hm"}, None)] == deltas(
        w.write(reasoning)
    )
    assert b"" == w.write(signature)
    assert [({"content": "a"}, None)] == deltas(w.write(text("a")))


def test_an_empty_answer_still_has_its_role() -> None:
    """With nothing to say, role and finish come together."""
    w = writer()
    w.write(StreamEvent("messageStop", {"stopReason": "max_tokens"}))

    assert [({"role": "assistant", "content": ""}, None), ({}, "length")] == deltas(w.write(METADATA))


@pytest.mark.parametrize(
    "event",
    [
        StreamEvent("contentBlockStart", {"contentBlockIndex": 0, "start": {}}),
        StreamEvent("contentBlockStop", {"contentBlockIndex": 0}),
        StreamEvent("contentBlockDelta", {"delta": {"citation": {}}}),
        StreamEvent("contentBlockDelta", {}),
        StreamEvent("somethingNew", {"x": 1}),
        StreamEvent("metadata", {}),
        StreamEvent("", {}),
    ],
)
def test_what_is_not_known_is_passed_over(event: StreamEvent) -> None:
    """Block borders, and whatever Bedrock adds later, say nothing to the caller."""
    assert b"" == writer(includes_usage=True).write(event)


def test_a_cut_stream_has_no_end() -> None:
    """Without ``messageStop``, or with bytes of half a frame left, ``[DONE]`` is never said."""
    no_stop, half_frame = writer(), writer()
    no_stop.write(text("a"))
    half_frame.write(STOP)

    with pytest.raises(ReplyBroken, match="cut"):
        no_stop.end(leftover=0)
    with pytest.raises(ReplyBroken, match="cut"):
        half_frame.end(leftover=7)


def test_unusable_output_breaks_the_stream() -> None:
    """Output that Bedrock calls malformed does not finish as if it were an answer."""
    with pytest.raises(ReplyBroken, match="malformed_model_output"):
        writer().write(StreamEvent("messageStop", {"stopReason": "malformed_model_output"}))


# --- tools


def tool(name: str, call_id: str = "t1", *, block: int = 0) -> StreamEvent:
    start = {"toolUse": {"toolUseId": call_id, "name": name}}
    return StreamEvent("contentBlockStart", {"contentBlockIndex": block, "start": start})


def shown(fragment: object, *, block: int = 0) -> StreamEvent:
    return StreamEvent("contentBlockDelta", {"contentBlockIndex": block, "delta": {"toolUse": {"input": fragment}}})


def block_stop(block: int = 0) -> StreamEvent:
    return StreamEvent("contentBlockStop", {"contentBlockIndex": block})


def run(w: ChunkWriter, *events: StreamEvent) -> list[Any]:
    """Deltas and finish reasons of a whole stream."""
    return deltas(b"".join([*[w.write(event) for event in events], w.end(leftover=0)]))


def test_tool_calls_have_a_count_of_their_own() -> None:
    """Text and reasoning count among Bedrock's blocks, not among the calls; fragments go out as they come."""
    stop = StreamEvent("messageStop", {"stopReason": "tool_use"})
    events = (
        text("Well."),
        tool("look_up", "a", block=2),
        shown('{"ci', block=2),
        shown('ty":1}', block=2),
        block_stop(2),
        tool("now", "b", block=3),
        shown("", block=3),
        block_stop(3),
        stop,
        METADATA,
    )

    assert [
        ({"role": "assistant", "content": ""}, None),
        ({"content": "Well."}, None),
        (
            {
                "tool_calls": [
                    {"index": 0, "id": "a", "type": "function", "function": {"name": "look_up", "arguments": ""}}
                ]
            },
            None,
        ),
        ({"tool_calls": [{"index": 0, "function": {"arguments": '{"ci'}}]}, None),
        ({"tool_calls": [{"index": 0, "function": {"arguments": 'ty":1}'}}]}, None),
        (
            {"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "now", "arguments": ""}}]},
            None,
        ),
        ({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}, None),
        ({}, "tool_calls"),
    ] == run(writer(), *events)


def test_a_tool_that_is_never_stopped_has_its_arguments_all_the_same() -> None:
    """The end of the message ends its blocks; an input that comes as an object is text in OpenAI's shape."""
    found = run(writer(), tool("f"), tool("g", block=1), shown({"x": 1}, block=1), STOP)

    fragments = [call["function"]["arguments"] for delta, _ in found for call in delta.get("tool_calls", [])]
    assert ["", "", '{"x":1}', "{}"] == fragments
    assert "tool_calls" == found[-1][1]


def test_names_and_ids_of_calls_are_the_callers() -> None:
    """The name is turned back, and no two calls have the same id."""
    found = run(writer(original=str.upper), tool("f", "x"), block_stop(), tool("g", "x", block=1), STOP)

    begun = [call for delta, _ in found for call in delta.get("tool_calls", []) if "id" in call]
    assert [("x", "F"), ("x-2", "G")] == [(call["id"], call["function"]["name"]) for call in begun]


def test_a_fragment_of_no_call_breaks_the_stream() -> None:
    """Arguments that belong to no one are not left out in silence."""
    with pytest.raises(ReplyBroken, match="has not started"):
        writer().write(shown("{}"))


def test_the_schemas_tool_streams_its_input_as_content() -> None:
    """Text around it is not shown, a second call of it is not either, and the end is ``stop``."""
    stop = StreamEvent("messageStop", {"stopReason": "tool_use"})
    events = (
        text("Here:"),
        tool("json", block=1),
        shown('{"a"', block=1),
        shown(":1}", block=1),
        block_stop(1),
        text("Done."),
        tool("json", block=2),
        shown("{}", block=2),
        block_stop(2),
        stop,
    )

    assert [
        ({"role": "assistant", "content": ""}, None),
        ({"content": '{"a"'}, None),
        ({"content": ":1}"}, None),
        ({}, "stop"),
    ] == run(writer(unwraps_tool="json"), *events)


def test_text_is_shown_at_the_end_where_the_schemas_tool_was_not_called() -> None:
    """It is held until it is certain that it is the answer."""
    w = writer(unwraps_tool="json")

    assert b"" == w.write(text('{"a"')) + w.write(text(":1}"))
    assert [({"role": "assistant", "content": ""}, None), ({"content": '{"a":1}'}, None)] == deltas(w.write(STOP))


def test_a_schemas_tool_without_input_is_an_empty_object() -> None:
    found = run(writer(unwraps_tool="json"), tool("json"), block_stop(), STOP)

    assert {"content": "{}"} == found[1][0]


# --- stop strings that the gateway finds


def test_a_stop_string_finishes_the_stream_at_once() -> None:
    """The finish goes out with the last text; nothing of what Bedrock says afterwards does, but its usage."""
    w = writer(stops=("END",), includes_usage=True)

    assert [({"role": "assistant", "content": ""}, None), ({"content": "one "}, None)] == deltas(w.write(text("one E")))
    assert [({}, "stop")] == deltas(w.write(text("ND two")))
    assert (True, True) == (w.has_stopped, w.was_stopped)
    malformed = StreamEvent("messageStop", {"stopReason": "malformed_model_output"})
    assert b"" == b"".join(w.write(event) for event in (text("three"), tool("f"), shown("{}"), block_stop(), malformed))
    assert 16 == chunks(w.write(METADATA))[0]["usage"]["total_tokens"]
    assert b"data: [DONE]\n\n" == w.end(leftover=7)


def test_what_might_have_become_a_stop_string_is_shown_at_the_end() -> None:
    before_call = run(writer(stops=("END",)), text("one EN"), tool("f"), block_stop(), STOP)
    at_end = run(writer(stops=("END",)), text("one EN"), STOP)

    for found in (before_call, at_end):
        assert "one EN" == "".join(delta.get("content", "") for delta, _ in found)


@pytest.mark.parametrize("size", [1, 4, 100])
def test_thoughts_within_the_text_stream_in_their_field(size: int) -> None:
    said = "\n<reasoning>two and two</reasoning>\n\nFour.\n"
    w = writer()
    data = b"".join(w.write(text(said[at : at + size])) for at in range(0, len(said), size))
    found = deltas(data + w.write(STOP) + w.end(leftover=0).removesuffix(b"data: [DONE]\n\n"))

    assert "Four.\n" == "".join(delta.get("content", "") for delta, _ in found)
    assert "two and two" == "".join(delta.get("reasoning_content", "") for delta, _ in found)


def test_a_text_that_ends_within_a_tag_is_not_lost() -> None:
    """It was not one."""
    w = writer()
    data = w.write(text("<rea")) + w.write(STOP)

    assert "<rea" == "".join(delta.get("content", "") for delta, _ in deltas(data))

from typing import Any

import msgspec
import pytest
from openai.types.chat import ChatCompletionChunk

from gateway.backends.bedrock.frame import Event
from gateway.backends.bedrock.stream import ChunkWriter
from gateway.errors import ReplyBroken

STOP = Event("messageStop", {"stopReason": "end_turn"})
METADATA = Event("metadata", {"usage": {"inputTokens": 11, "outputTokens": 5, "totalTokens": 16}})


def text(content: str) -> Event:
    return Event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": content}, "p": "abc"})


def writer(*, includes_usage: bool = False) -> ChunkWriter:
    return ChunkWriter(
        completion_id="chatcmpl-1",
        created=1700000000,
        model="tiny",
        includes_usage=includes_usage,
        reasoning_field="reasoning_content",
    )


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
    pieces = [w.write(event) for event in (Event("messageStart", {}), text("Hel"), text("lo"), STOP, METADATA)]
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
    """The finish chunk, held for the metadata, comes with the end if there is none."""
    w = writer(includes_usage=True)
    w.write(text("a"))
    w.write(STOP)

    assert "stop" == chunks(w.end(leftover=0))[0]["choices"][0]["finish_reason"]


def test_empty_text_and_reasoning_come_as_the_models_send_them() -> None:
    """An empty block in front is passed over, reasoning has its own field, signatures are nothing."""
    w = writer()
    reasoning = Event("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"reasoningContent": {"text": "hm"}}})
    signature = Event("contentBlockDelta", {"delta": {"reasoningContent": {"signature": "s"}}})

    assert b"" == w.write(text(""))
    assert [({"role": "assistant", "content": ""}, None), ({"reasoning_content": "hm"}, None)] == deltas(
        w.write(reasoning)
    )
    assert b"" == w.write(signature)
    assert [({"content": "a"}, None)] == deltas(w.write(text("a")))


def test_an_empty_answer_still_has_its_role() -> None:
    """With nothing to say, role and finish come together."""
    w = writer()
    w.write(Event("messageStop", {"stopReason": "max_tokens"}))

    assert [({"role": "assistant", "content": ""}, None), ({}, "length")] == deltas(w.write(METADATA))


@pytest.mark.parametrize(
    "event",
    [
        Event("contentBlockStart", {"contentBlockIndex": 0, "start": {}}),
        Event("contentBlockStop", {"contentBlockIndex": 0}),
        Event("contentBlockDelta", {"delta": {"citation": {}}}),
        Event("contentBlockDelta", {}),
        Event("somethingNew", {"x": 1}),
        Event("metadata", {}),
        Event("", {}),
    ],
)
def test_what_is_not_known_is_passed_over(event: Event) -> None:
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
        writer().write(Event("messageStop", {"stopReason": "malformed_model_output"}))

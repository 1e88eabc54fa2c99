from typing import Any

import msgspec
import pytest
from openai.types.chat import ChatCompletion

from gateway.backends.bedrock.answer import Terms, as_events, finish_reason, read_answer, to_completion, usage
from gateway.backends.bedrock.frame import StreamEvent
from gateway.backends.bedrock.wire import Heading
from gateway.protocol.errors import ReplyBroken

HEADING = Heading("chatcmpl-1", 1700000000, "tiny", "reasoning_content")


def completion(answer: object, terms: Terms | None = None) -> Any:
    body = msgspec.json.encode(answer)
    text = to_completion(read_answer(body), HEADING, terms or Terms())
    ChatCompletion.model_validate_json(text, strict=True)
    return msgspec.json.decode(text)


def answer(*blocks: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"output": {"message": {"role": "assistant", "content": list(blocks)}}, "stopReason": "end_turn", **more}


def test_an_answer_is_a_chat_completion() -> None:
    """Text, finish reason and usage come out in OpenAI's shape, under the caller's name for the model."""
    tokens = {"inputTokens": 11, "outputTokens": 5, "totalTokens": 16, "serverToolUsage": {}}

    assert {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello"},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 11,
            "completion_tokens": 5,
            "total_tokens": 16,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    } == completion(answer({"text": "Hello"}, usage=tokens, metrics={"latencyMs": 1}))


def test_every_text_block_counts() -> None:
    """The text is not looked for in the first block only: an empty one, reasoning and unknown ones may stand before."""
    reasoning = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}

    message = completion(answer({"text": ""}, reasoning, {"citationsContent": {}}, {"text": "a"}, {"text": "b"}))[
        "choices"
    ][0]["message"]

    assert {"role": "assistant", "content": "ab", "reasoning_content": "hm"} == message


def test_an_answer_of_nothing_but_reasoning_has_empty_content() -> None:
    """Content is then a string, never null; redacted reasoning has no text."""
    blocks = (
        {"reasoningContent": {"redactedContent": "eA=="}},
        {"reasoningContent": {"reasoningText": {"text": "hm"}}},
    )

    message = completion(answer(*blocks))["choices"][0]["message"]

    assert {"role": "assistant", "content": "", "reasoning_content": "hm"} == message


def test_without_usage_there_is_not_one() -> None:
    """No count is made up."""
    assert "usage" not in completion(answer({"text": "x"}))


@pytest.mark.parametrize(
    "body",
    [
        {"Output": {"__type": "com.amazon.coral.service#UnknownOperationException"}, "Version": "1.0"},
        {"output": {}},
        {"output": {"message": {"content": None}}},
        {"output": {"message": {"content": [7]}}},
        {"output": None},
        [],
        None,
    ],
)
def test_a_200_without_an_output_is_broken(body: object) -> None:
    """Bedrock says 200 to a path it does not know; that is not an empty answer."""
    with pytest.raises(ReplyBroken, match=r"without a message in 'output'|not a JSON object"):
        completion(body)


def test_a_200_that_is_not_json_is_broken() -> None:
    """A page of something in between is not an answer."""
    with pytest.raises(ReplyBroken, match="not valid JSON"):
        read_answer(b"<html>")


@pytest.mark.parametrize(
    ("stop_reason", "expected", "with_calls"),
    [
        ("end_turn", "stop", "tool_calls"),
        ("stop_sequence", "stop", "tool_calls"),
        ("tool_use", "stop", "tool_calls"),
        ("max_tokens", "length", "length"),
        ("model_context_window_exceeded", "length", "length"),
        ("guardrail_intervened", "content_filter", "content_filter"),
        ("content_filtered", "content_filter", "content_filter"),
        ("never_heard_of", "stop", "tool_calls"),
        (None, "stop", "tool_calls"),
    ],
)
def test_a_stop_reason_is_a_finish_reason(stop_reason: object, expected: str, with_calls: str) -> None:
    """Each has one; an unknown one is an ordinary end, and an ordinary end with calls is ``tool_calls``."""
    assert expected == finish_reason(stop_reason, has_calls=False)
    assert with_calls == finish_reason(stop_reason, has_calls=True)


@pytest.mark.parametrize("stop_reason", ["malformed_model_output", "malformed_tool_use"])
def test_an_unusable_answer_is_broken(stop_reason: str) -> None:
    """Garbage is not handed on as a finished answer."""
    with pytest.raises(ReplyBroken, match=stop_reason):
        finish_reason(stop_reason, has_calls=True)


def use(name: str, shown: object = None, call_id: object = "t1") -> dict[str, Any]:
    return {"toolUse": {"toolUseId": call_id, "name": name, "input": shown}}


def test_every_tool_call_is_there() -> None:
    """Their arguments are compact JSON, in the order of the blocks; without text the content is null."""
    found = completion(
        answer(use("look_up", {"city": "Zürich", "days": [1, 2]}, "a"), use("now", {}, "b"), stopReason="tool_use")
    )

    choice = found["choices"][0]
    assert "tool_calls" == choice["finish_reason"]
    assert {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "a",
                "type": "function",
                "function": {"name": "look_up", "arguments": '{"city":"Zürich","days":[1,2]}'},
            },
            {"id": "b", "type": "function", "function": {"name": "now", "arguments": "{}"}},
        ],
    } == choice["message"]


def test_text_beside_calls_is_kept() -> None:
    """Also where it comes behind them, and where the model says that it ended its turn."""
    found = completion(answer({"text": "One "}, use("now"), {"text": "moment."}))["choices"][0]

    assert ("One moment.", "tool_calls") == (found["message"]["content"], found["finish_reason"])
    assert "{}" == found["message"]["tool_calls"][0]["function"]["arguments"]


def test_names_are_turned_back() -> None:
    """The caller sees the name that it gave, not the one that fits Bedrock."""
    found = completion(answer(use("files_read")), Terms(original={"files_read": "files.read"}.__getitem__))

    assert "files.read" == found["choices"][0]["message"]["tool_calls"][0]["function"]["name"]


def test_call_ids_are_unique_within_an_answer() -> None:
    """A model that numbers badly, or not at all, does not make two calls one."""
    blocks = [use("f", call_id=call_id) for call_id in ("functions.f:0", "functions.f:0", None, "", "call-2")]

    calls = completion(answer(*blocks))["choices"][0]["message"]["tool_calls"]

    assert ["functions.f:0", "functions.f:0-2", "call", "call-2", "call-2-2"] == [call["id"] for call in calls]


def test_the_input_of_the_schemas_tool_is_the_content() -> None:
    """What was asked for as JSON comes as content and ends with ``stop``; words beside it would spoil it."""
    found = completion(
        answer({"text": "Here you are:"}, use("json", {"a": 1}), use("json", {"a": 2}), stopReason="tool_use"),
        Terms(unwraps_tool="json", stops=("you",)),
    )["choices"][0]

    assert ("stop", {"role": "assistant", "content": '{"a":1}'}) == (found["finish_reason"], found["message"])


def test_text_is_the_answer_where_the_schemas_tool_is_not_called() -> None:
    """A model may answer with plain JSON though it was reported to call."""
    found = completion(answer({"text": '{"a":1}'}), Terms(unwraps_tool="json"))["choices"][0]

    assert '{"a":1}' == found["message"]["content"]


def test_a_stop_string_ends_the_answer() -> None:
    """It is not part of the answer, nor is anything behind it, even across blocks; the end is an ordinary one."""
    found = completion(
        answer({"text": "one EN"}, {"text": "D two"}, use("now"), stopReason="max_tokens"), Terms(stops=("END", "two"))
    )["choices"][0]

    assert ("stop", {"role": "assistant", "content": "one "}) == (found["finish_reason"], found["message"])


def test_what_might_have_become_a_stop_string_is_not_lost() -> None:
    """The beginning of one, at the end of the text or before a call, is text."""
    found = completion(answer({"text": "one EN"}, use("now"), {"text": "D E"}), Terms(stops=("END",)))["choices"][0]

    assert "one END E" == found["message"]["content"]


def test_an_answer_as_events_is_that_of_a_stream() -> None:
    """Blocks keep their numbers; what no one reads has no event."""
    thought = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}
    body = msgspec.json.encode(
        answer(thought, {"citationsContent": {}}, {"text": "a"}, use("f", {"x": 1}, "t"), usage={"inputTokens": 1})
    )

    assert [
        StreamEvent("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "hm"}}}),
        StreamEvent("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"text": "a"}}),
        StreamEvent(
            "contentBlockStart",
            {"contentBlockIndex": 3, "start": {"toolUse": {"toolUseId": "t", "name": "f", "input": {"x": 1}}}},
        ),
        StreamEvent("contentBlockDelta", {"contentBlockIndex": 3, "delta": {"toolUse": {"input": '{"x":1}'}}}),
        StreamEvent("contentBlockStop", {"contentBlockIndex": 3}),
        StreamEvent("messageStop", {"stopReason": "end_turn"}),
        StreamEvent("metadata", {"usage": {"inputTokens": 1}}),
    ] == list(as_events(read_answer(body)))


@pytest.mark.parametrize(
    ("tokens", "prompt", "completion_tokens", "cached"),
    [
        ({"inputTokens": 2, "cacheWriteInputTokens": 1322, "outputTokens": 5, "totalTokens": 1329}, 1324, 5, 0),
        ({"inputTokens": 2, "cacheReadInputTokens": 1322, "outputTokens": 5}, 1324, 5, 1322),
        # a total that leaves the cache out
        ({"inputTokens": 2, "cacheReadInputTokens": 1322, "outputTokens": 5, "totalTokens": 7}, 1324, 5, 1322),
        # the cache counted inside inputTokens already
        ({"inputTokens": 1324, "cacheReadInputTokens": 1322, "outputTokens": 5, "totalTokens": 1329}, 1324, 5, 1322),
        ({"inputTokens": 10, "outputTokens": 5, "totalTokens": 3}, 10, 5, 0),
        ({}, 0, 0, 0),
    ],
)
def test_the_prompt_includes_the_cache(
    tokens: dict[str, int], prompt: int, completion_tokens: int, cached: int
) -> None:
    """A consistent total decides, else the parts are added up."""
    counted = usage(tokens)

    assert (prompt, completion_tokens, prompt + completion_tokens) == (
        counted["prompt_tokens"],
        counted["completion_tokens"],
        counted["total_tokens"],
    )
    assert {"cached_tokens": cached} == counted["prompt_tokens_details"]


def test_thoughts_within_the_text_stand_in_their_field() -> None:
    """Where the family writes them there, with the line breaks behind them; a stop within them is not one."""
    said = answer({"text": "<think>x STOP"}, {"text": " y</think>\n\nFour."})

    assert {"role": "assistant", "content": "Four.", "reasoning_content": "x STOP y"} == completion(
        said, Terms(stops=("STOP",))
    )["choices"][0]["message"]
    assert (
        "<think>x STOP y</think>\n\nFour."
        == completion(said, Terms(inline_reasoning=False))["choices"][0]["message"]["content"]
    )


def test_line_breaks_before_an_answer_are_taken_away() -> None:
    """Qwen begins with them."""
    said = answer({"text": "\n\nFour.\n"})

    assert "Four.\n" == completion(said, Terms(inline_reasoning=False))["choices"][0]["message"]["content"]

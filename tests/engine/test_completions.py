"""What applications use of `/v1/chat/completions` and `/v1/completions`, answered by a real engine."""

import json
from typing import Any

from openai import OpenAI

from tests.engine.examples import STORY, WEATHER_TOOL, chat
from tests.engine.stack import MODEL, WORKER_HEADER

BOOKING = {
    "type": "object",
    "properties": {"class": {"type": "string", "enum": ["economy", "business"]}, "bags": {"enum": [0, 1, 2]}},
    "required": ["class", "bags"],
    "additionalProperties": False,
}
"""Every value of it is short: the model would never end a free text."""


def text_of(openai: OpenAI, **arguments: Any) -> str:
    return str(openai.chat.completions.create(**chat(**arguments)).choices[0].message.content)


def complete(openai: OpenAI, prompt: str | list[int], **more: Any) -> Any:
    """A text completion of eight tokens, with the ids of all tokens."""
    arguments: dict[str, Any] = {"model": MODEL, "prompt": prompt, "temperature": 0, "max_tokens": 8, **more}
    return openai.completions.create(**arguments, extra_body={"return_token_ids": True})


# Streams


def test_a_stream_says_what_the_whole_answer_says(openai: OpenAI) -> None:
    """Role first, the reason last, and in between the same text in pieces."""
    whole = openai.chat.completions.create(**chat())
    chunks = list(openai.chat.completions.create(**chat(stream=True)))
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks]

    assert whole.choices[0].message.content == "".join(pieces)
    assert len(pieces) > 2
    assert "assistant" == chunks[0].choices[0].delta.role
    assert whole.choices[0].finish_reason == chunks[-1].choices[0].finish_reason
    assert [None] * len(chunks) == [chunk.usage for chunk in chunks]


def test_usage_comes_last_where_it_was_asked_for(openai: OpenAI) -> None:
    """In a chunk without choices, with what was cached."""
    whole = openai.chat.completions.create(**chat())
    *_, last = openai.chat.completions.create(**chat(stream=True, stream_options={"include_usage": True}))

    assert [] == last.choices
    assert (whole.usage.prompt_tokens, 20) == (last.usage.prompt_tokens, last.usage.completion_tokens)
    assert last.usage.prompt_tokens_details.cached_tokens > last.usage.prompt_tokens / 2


def test_a_text_completion_streams(openai: OpenAI) -> None:
    arguments: dict[str, Any] = {"model": MODEL, "prompt": STORY, "temperature": 0, "max_tokens": 20}
    whole = openai.completions.create(**arguments)
    chunks = openai.completions.create(**arguments, stream=True)

    assert whole.choices[0].text == "".join(chunk.choices[0].text for chunk in chunks)


# Several answers, and how likely they were


def test_two_answers_to_one_question(openai: OpenAI) -> None:
    """n=2: two choices that differ, of one prompt."""
    completion = openai.chat.completions.create(**chat(n=2, temperature=1, seed=7))

    assert [0, 1] == sorted(choice.index for choice in completion.choices)
    assert completion.choices[0].message.content != completion.choices[1].message.content
    assert 40 == completion.usage.completion_tokens


def test_two_answers_stream_side_by_side(openai: OpenAI) -> None:
    """Each chunk says of which it is."""
    chunks = list(openai.chat.completions.create(**chat(n=2, temperature=1, seed=7, stream=True)))
    choices = [choice for chunk in chunks for choice in chunk.choices]
    texts = ["".join(choice.delta.content or "" for choice in choices if choice.index == index) for index in (0, 1)]

    assert all(texts)
    assert texts[0] != texts[1]


def test_a_chat_has_log_probabilities(openai: OpenAI) -> None:
    tokens = openai.chat.completions.create(**chat(logprobs=True, top_logprobs=3)).choices[0].logprobs.content

    assert 20 == len(tokens)
    assert all(len(token.top_logprobs) == 3 and token.logprob <= 0 for token in tokens)
    assert all(token.logprob == token.top_logprobs[0].logprob for token in tokens)


def test_a_stream_has_log_probabilities(openai: OpenAI) -> None:
    """The same as the whole answer's."""
    asked: dict[str, Any] = {"logprobs": True, "top_logprobs": 1}
    whole = openai.chat.completions.create(**chat(**asked)).choices[0].logprobs.content
    chunks = openai.chat.completions.create(**chat(**asked, stream=True))
    streamed = [
        token for chunk in chunks if (reported := chunk.choices[0].logprobs) for token in reported.content or ()
    ]

    assert [token.token for token in whole] == [token.token for token in streamed]


def test_a_text_completion_has_log_probabilities(openai: OpenAI) -> None:
    """In the older form: lists beside each other."""
    reported = complete(openai, STORY, logprobs=2).choices[0].logprobs

    assert [8, 8, 8] == [len(reported.tokens), len(reported.token_logprobs), len(reported.top_logprobs)]


# Tools


def test_tools_may_be_left_alone(openai: OpenAI) -> None:
    """Their definitions are part of the prompt, whether the model may choose or must not."""
    without = openai.chat.completions.create(**chat()).usage.prompt_tokens
    for choice in ("auto", "none"):
        completion = openai.chat.completions.create(**chat(tools=[WEATHER_TOOL], tool_choice=choice))

        assert completion.choices[0].message.content
        assert completion.usage.prompt_tokens > without


def test_a_tool_that_is_named_is_called(openai: OpenAI) -> None:
    """With an argument that its schema allows."""
    named = {"type": "function", "function": {"name": "weather"}}
    completion = openai.chat.completions.create(**chat(tools=[WEATHER_TOOL], tool_choice=named, max_tokens=50))
    (call,) = completion.choices[0].message.tool_calls

    assert "weather" == call.function.name
    assert json.loads(call.function.arguments) in ({"town": "Paris"}, {"town": "London"})


def test_tool_calls_stream(openai: OpenAI) -> None:
    """Where some tool must be called: its name once, then the argument, in as many pieces as vLLM makes of it.

    This model goes on calling.
    """
    arguments = chat(tools=[WEATHER_TOOL], tool_choice="required", max_tokens=100, stream=True)
    chunks = list(openai.chat.completions.create(**arguments))
    deltas = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or ()]
    of_first = [call.function for call in deltas if call.index == 0]

    assert ["weather"] == [function.name for function in of_first if function.name]
    assert json.loads("".join(function.arguments or "" for function in of_first))["town"] in ("Paris", "London")


def test_the_result_of_a_tool_is_read(openai: OpenAI) -> None:
    """A conversation with a call and its result is answered, and another result changes how likely the answer is."""
    asked = {"role": "user", "content": "How is the weather in Paris?"}
    function = {"name": "weather", "arguments": json.dumps({"town": "Paris"})}
    called = {"role": "assistant", "tool_calls": [{"id": "call-1", "type": "function", "function": function}]}
    likelihoods = set()
    for result in ("sun", "rain"):
        reported = {"role": "tool", "tool_call_id": "call-1", "content": result}
        arguments = chat(tools=[WEATHER_TOOL], messages=[asked, called, reported], logprobs=True)
        likelihoods.add(openai.chat.completions.create(**arguments).choices[0].logprobs.content[0].logprob)

    assert 2 == len(likelihoods)


# JSON


def test_json_mode_forces_an_object(openai: OpenAI) -> None:
    """What the model would not have said by itself; this one never ends it, so its beginning is looked at."""
    assert not text_of(openai).lstrip().startswith("{")
    assert text_of(openai, response_format={"type": "json_object"}).startswith("{")


def test_a_schema_forces_its_form(openai: OpenAI) -> None:
    """Whole and as a stream."""
    wanted = {"type": "json_schema", "json_schema": {"name": "booking", "schema": BOOKING, "strict": True}}
    whole = text_of(openai, response_format=wanted, max_tokens=100)
    chunks = openai.chat.completions.create(**chat(response_format=wanted, max_tokens=100, stream=True))
    booking = json.loads(whole)

    assert {"class", "bags"} == set(booking)
    assert booking["class"] in ("economy", "business")
    assert booking["bags"] in (0, 1, 2)
    assert whole == "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


# Token ids


def test_token_ids_are_given_and_taken(openai: OpenAI) -> None:
    """A prompt sent as the ids that it has been is the same prompt."""
    by_text = complete(openai, STORY).choices[0]
    by_ids = complete(openai, by_text.prompt_token_ids).choices[0]

    assert len(by_text.prompt_token_ids) > 100
    assert (by_text.text, by_text.token_ids) == (by_ids.text, by_ids.token_ids)


def test_an_answer_goes_on_from_its_token_ids(openai: OpenAI) -> None:
    """Prompt and the first half of the answer, as ids, lead to the second half."""
    whole = complete(openai, STORY).choices[0]
    rest = complete(openai, whole.prompt_token_ids + whole.token_ids[:4], max_tokens=4).choices[0]

    assert whole.token_ids[4:] == rest.token_ids


def test_token_ids_find_their_engine_again(openai: OpenAI) -> None:
    """The gateway cuts a prompt of ids into blocks as it does with text, and the engine has it cached."""
    ids = [100 + i * 7 % 5000 for i in range(800)]
    arguments: dict[str, Any] = {"model": MODEL, "prompt": ids, "temperature": 0, "max_tokens": 4}
    first, second = (openai.completions.with_raw_response.create(**arguments) for _ in range(2))
    usage = second.parse().usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None

    assert first.headers[WORKER_HEADER] == second.headers[WORKER_HEADER]
    assert "50" == second.headers["x-warmgate-hit-blocks"]  # of 64 bytes, which are 16 ids
    assert 800 - 32 == usage.prompt_tokens_details.cached_tokens

"""Tools, JSON, choices, stop strings and log probabilities of a worker, over HTTP."""

import json
import math
from typing import Any

import httpx
import pytest

from simulator.tokens import TokenSequence

CHAT = "/v1/chat/completions"
QUESTION = {"role": "user", "content": "Is it cold in Oslo?"}
PARAMETERS = {
    "type": "object",
    "properties": {"town": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
    "required": ["town", "days"],
}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "clock"}},
]


async def chat(worker: httpx.AsyncClient, **body: Any) -> Any:
    response = await worker.post(CHAT, json={"messages": [QUESTION], **body})
    assert 200 == response.status_code, response.text
    return response.json()


async def chunks(worker: httpx.AsyncClient, path: str = CHAT, **body: Any) -> list[Any]:
    """Those of a stream, without the last line."""
    body = {"stream": True, "stream_options": {"include_usage": True}, **body}
    lines = (await worker.post(path, json=body)).text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


async def refusal(worker: httpx.AsyncClient, **body: Any) -> str:
    response = await worker.post(CHAT, json={"messages": [QUESTION], **body})
    assert 400 == response.status_code
    return str(response.json()["error"]["message"])


async def test_a_tool_is_called_on_a_turn_of_the_user(worker: httpx.AsyncClient) -> None:
    """Arguments fit the schema, and the same question gets the same call."""
    answer = await chat(worker, tools=TOOLS[:1])
    choice = answer["choices"][0]
    call = choice["message"]["tool_calls"][0]
    arguments = json.loads(call["function"]["arguments"])

    assert ("tool_calls", None) == (choice["finish_reason"], choice["message"]["content"])
    assert ("function", "weather") == (call["type"], call["function"]["name"])
    assert call["id"].startswith("chatcmpl-tool-")
    assert arguments["town"] in ("Oslo", "Rome")
    assert 1 <= arguments["days"] <= 7
    assert answer["choices"] == (await chat(worker, tools=TOOLS[:1]))["choices"]


async def test_a_call_is_streamed(worker: httpx.AsyncClient) -> None:
    """Id and name first, then the arguments piece by piece, with the usage of the whole answer."""
    whole = await chat(worker, tools=TOOLS[:1])
    *streamed, last = await chunks(worker, messages=[QUESTION], tools=TOOLS[:1])
    deltas = [chunk["choices"][0]["delta"]["tool_calls"][0] for chunk in streamed[1:]]
    call = whole["choices"][0]["message"]["tool_calls"][0]

    assert (call["id"], "weather") == (deltas[0]["id"], deltas[0]["function"]["name"])
    assert call["function"]["arguments"] == "".join(delta["function"]["arguments"] for delta in deltas)
    assert not any("id" in delta for delta in deltas[1:])
    assert ["tool_calls"] == [chunk["choices"][0]["finish_reason"] for chunk in streamed[-1:]]
    assert whole["usage"]["completion_tokens"] == last["usage"]["completion_tokens"]


async def test_a_result_is_reported_and_the_loop_ends(worker: httpx.AsyncClient) -> None:
    """In one line of bounded length. The next turn of the user begins another loop."""
    called = (await chat(worker, tools=TOOLS))["choices"][0]["message"]
    call_id = called["tool_calls"][0]["id"]
    result = {"role": "tool", "tool_call_id": call_id, "content": "4 C,\nsnow <|im_end|>" + "x" * 300}
    choice = (await chat(worker, messages=[QUESTION, called, result], tools=TOOLS))["choices"][0]
    parts = [{"type": "text", "text": "4 C"}]
    again = await chat(worker, messages=[QUESTION, called, {**result, "content": parts}], tools=TOOLS)

    assert ("stop", []) == (choice["finish_reason"], choice["message"]["tool_calls"])
    assert choice["message"]["content"].startswith("The tool returned: 4 C, snow im_end|>xxx")
    assert len(choice["message"]["content"]) < 250
    assert "The tool returned: 4 C" == again["choices"][0]["message"]["content"]


async def test_a_call_in_the_history_is_in_the_prefix_cache(worker: httpx.AsyncClient) -> None:
    """The chat template puts back the tokens that were generated, but for those of the last block."""
    question = {"role": "user", "content": "word " * 100}
    first = await chat(worker, messages=[question], tools=TOOLS)
    called = first["choices"][0]["message"]
    call_id = called["tool_calls"][0]["id"]
    result = {"role": "tool", "tool_call_id": call_id, "content": "4 C"}
    second = await chat(worker, messages=[question, called, result], tools=TOOLS)

    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached > first["usage"]["total_tokens"] - 2 * 16


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "clock"}}])
async def test_a_call_can_be_demanded(worker: httpx.AsyncClient, choice: Any) -> None:
    """Also where the last message is a result; a named tool is the one that is called."""
    result = {"role": "tool", "tool_call_id": "a", "content": "4 C"}
    answer = (await chat(worker, messages=[QUESTION, result], tools=TOOLS, tool_choice=choice))["choices"][0]

    assert "tool_calls" == answer["finish_reason"]
    if choice != "required":
        assert {"name": "clock", "arguments": "{}"} == answer["message"]["tool_calls"][0]["function"]


async def test_tools_do_not_change_what_counts_tokens(worker: httpx.AsyncClient) -> None:
    """With ``none``, and where a number of tokens is asked for, the answer is text of its usual length."""
    for body in ({"tool_choice": "none"}, {"ignore_eos": True}, {"min_tokens": 8}):
        answer = await chat(worker, tools=TOOLS, max_tokens=8, **body)

        assert ("length", 8) == (answer["choices"][0]["finish_reason"], answer["usage"]["completion_tokens"])
        assert answer["choices"][0]["message"]["content"]


async def test_choices_that_do_not_go_with_the_tools_are_refused(worker: httpx.AsyncClient) -> None:
    named = {"type": "function", "function": {"name": "radio"}}

    assert "there is no tool 'radio' in tools" in await refusal(worker, tools=TOOLS, tool_choice=named)
    assert "`tools` must be set" in await refusal(worker, tool_choice="required")


async def test_a_call_is_cut_by_the_limit(worker: httpx.AsyncClient) -> None:
    """With the reason that says so."""
    answer = await chat(worker, tools=TOOLS[:1], max_tokens=3)

    assert ("length", 3) == (answer["choices"][0]["finish_reason"], answer["usage"]["completion_tokens"])
    assert "" == answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]


BOOK = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "pages": {"type": "integer"}, "tags": {"items": {"type": "string"}}},
    "required": ["title", "pages"],
}


@pytest.mark.parametrize(
    "body",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "book", "schema": BOOK}}},
        {"guided_json": BOOK},
        {"guided_json": json.dumps(BOOK)},
        {"structured_outputs": {"json": BOOK}},
    ],
)
async def test_an_answer_fits_a_schema(worker: httpx.AsyncClient, body: dict[str, Any]) -> None:
    """Within the limit where that is possible, with ever fewer optional properties."""
    for limit in (1000, 30):
        answer = await chat(worker, max_tokens=limit, **body)
        book = json.loads(answer["choices"][0]["message"]["content"])

        assert "stop" == answer["choices"][0]["finish_reason"]
        assert (str, int) == (type(book["title"]), type(book["pages"]))
        assert answer["usage"]["completion_tokens"] <= limit


async def test_an_answer_is_any_object_or_one_of_several_texts(worker: httpx.AsyncClient) -> None:
    for body in ({"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}}):
        content = (await chat(worker, **body))["choices"][0]["message"]["content"]
        assert isinstance(json.loads(content), dict)
    for choosing in ({"guided_choice": ["yes", "no"]}, {"structured_outputs": {"choice": ["yes", "no"]}}):
        assert (await chat(worker, **choosing))["choices"][0]["message"]["content"] in ("yes", "no")


async def test_a_result_is_reported_in_the_format_that_is_asked_for(worker: httpx.AsyncClient) -> None:
    """Tools come before it on a turn of the user."""
    wanted = {"tools": TOOLS, "response_format": {"type": "json_object"}}
    result = {"role": "tool", "tool_call_id": "a", "content": "4 C"}

    assert (await chat(worker, **wanted))["choices"][0]["message"]["tool_calls"]
    content = (await chat(worker, messages=[QUESTION, result], **wanted))["choices"][0]["message"]["content"]
    assert isinstance(json.loads(content), dict)


async def test_formats_that_no_answer_fits_are_refused(worker: httpx.AsyncClient) -> None:
    """Naming the field."""
    impossible = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"enum": [1], "allOf": [False]}}}

    assert (await refusal(worker, guided_json="{")).startswith("guided_json: the schema is not JSON")
    assert (await refusal(worker, guided_json=5)).startswith("guided_json: the schema must be an object")
    assert (await refusal(worker, guided_choice=[])).startswith("choice: must be 1 to 1000 strings")
    assert (await refusal(worker, guided_json={"type": "string", "pattern": "^9{99}$"})).startswith("guided_json: ")
    assert 200 == (await worker.post(CHAT, json={"messages": [QUESTION], "response_format": impossible})).status_code


async def test_a_stop_string_ends_an_answer(worker: httpx.AsyncClient) -> None:
    """Before it, in whole answers and in streams alike, wherever tokens are cut; the tokens up to it are counted."""
    text = (await chat(worker, max_tokens=30))["choices"][0]["message"]["content"]
    stop = text[21:27]
    whole = await chat(worker, max_tokens=30, stop=[stop])
    streamed = await chunks(worker, messages=[QUESTION], max_tokens=30, stop=stop)
    included = await chat(worker, max_tokens=30, stop=stop, include_stop_str_in_output=True)

    choice = whole["choices"][0]
    assert (text[:21], "stop", stop) == (choice["message"]["content"], choice["finish_reason"], choice["stop_reason"])
    assert text[:21] == "".join(chunk["choices"][0]["delta"]["content"] for chunk in streamed[:-1])
    assert "stop" == streamed[-2]["choices"][0]["finish_reason"]
    assert text[:27] == included["choices"][0]["message"]["content"]
    assert 7 == whole["usage"]["completion_tokens"] == streamed[-1]["usage"]["completion_tokens"]


async def test_completions_stop_and_have_log_probabilities(worker: httpx.AsyncClient) -> None:
    """Under the names of that endpoint; those of a stream are those of the whole answer."""
    body = {"prompt": "Once", "max_tokens": 6, "logprobs": 2}
    whole = (await worker.post("/v1/completions", json=body)).json()["choices"][0]
    streamed = await chunks(worker, "/v1/completions", **body)
    stopped = (await worker.post("/v1/completions", json={**body, "stop": whole["text"][4:9]})).json()["choices"][0]

    logprobs = whole["logprobs"]
    assert [0, 4, 8, 12, 16, 20] == logprobs["text_offset"]
    assert whole["text"] == "".join(logprobs["tokens"])
    assert {2} == set(map(len, logprobs["top_logprobs"]))
    for name, values in logprobs.items():
        assert values == [value for chunk in streamed[:-1] for value in chunk["choices"][0]["logprobs"][name]]
    assert (whole["text"][:4], "stop") == (stopped["text"], stopped["finish_reason"])


async def test_chats_have_log_probabilities(worker: httpx.AsyncClient) -> None:
    """The chosen token is the likeliest, and all together are less than certain."""
    choice = (await chat(worker, max_tokens=5, logprobs=True, top_logprobs=3))["choices"][0]
    plain = (await chat(worker, max_tokens=5, logprobs=True))["choices"][0]
    content = choice["logprobs"]["content"]

    assert choice["message"]["content"] == "".join(token["token"] for token in content)
    for token in content:
        ranked = token["top_logprobs"]
        assert 3 == len({each["token"] for each in ranked})
        assert token["token"].encode() == bytes(token["bytes"])
        assert (token["token"], token["logprob"]) == (ranked[0]["token"], max(each["logprob"] for each in ranked))
        assert sum(math.exp(each["logprob"]) for each in ranked) < 1
    assert [[]] * 5 == [token["top_logprobs"] for token in plain["logprobs"]["content"]]
    assert "`logprobs` must be set to true" in await refusal(worker, top_logprobs=3)


async def test_a_plain_answer_is_what_it_was(worker: httpx.AsyncClient) -> None:
    """Literal, since tests and benchmarks count on its tokens."""
    answer = await chat(worker, max_tokens=4, stop=None, logprobs=False, tool_choice="auto", response_format=None)
    content = answer["choices"][0]["message"]["content"]

    assert 4 == len(TokenSequence.from_text(content)) == answer["usage"]["completion_tokens"]
    assert None is answer["choices"][0]["logprobs"]
    assert [] == answer["choices"][0]["message"]["tool_calls"]
    assert content == (await chat(worker, max_tokens=4))["choices"][0]["message"]["content"]

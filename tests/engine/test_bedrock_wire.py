"""Bedrock's OpenAI API (`wire: openai`) with a real vLLM in Bedrock's place: it serves that path, and reads bodies.

Signatures are not read by vLLM; `tests/gateway/backends/bedrock` and `tests/bedrock` are about them.
"""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from openai import BadRequestError, DefaultHttpxClient, OpenAI

from benchmarks.processes import GATEWAY_COMMAND, Processes, start_gateway
from tests.engine.examples import STORY, WEATHER_TOOL, chat
from tests.engine.stack import MODEL, Stack
from tests.fakes.bedrock import ENVIRONMENT, FOREIGN_ENVIRONMENT, REGION

TOO_LONG = "seat " * 30_000
"""For the engines, which have room for 16,384 tokens."""
ROOMY = "tiny-with-a-roomy-fallback"


@pytest.fixture(scope="module")
def bedrock(served: Stack) -> Iterator[OpenAI]:
    """A client of a gateway without workers; an engine is Bedrock, and a simulated worker with more room comes next."""
    with Processes() as processes:
        simulator = processes.start(
            "simulator",
            [sys.executable, "-m", "gateway", "simulate", "--port", "0", "--model", MODEL, "--blocks", "32768"],
        )
        endpoint = {"url": f"{simulator.wait_for_ready_line()}/v1", "model": MODEL}
        engine = served.engines["engine-a"]
        wire = {"model_id": MODEL, "region": REGION, "endpoint_url": engine, "wire": "openai"}
        settings = {
            "server": {"port": 0},
            "models": [
                {"name": MODEL, "workers": [], "fallbacks": [{"bedrock": wire}]},
                {"name": ROOMY, "workers": [], "fallbacks": [{"bedrock": wire}, {"openai": endpoint}]},
            ],
            "bedrock": {"canary_at_start": False},
        }
        unset = ["env", *(f"--unset={name}" for name in FOREIGN_ENVIRONMENT)]
        _, url = start_gateway(processes, settings, command=[*unset, *GATEWAY_COMMAND], environment=ENVIRONMENT)
        client = DefaultHttpxClient(trust_env=False)
        with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, http_client=client) as sdk:
            yield sdk


def test_a_whole_answer_is_the_engines(bedrock: OpenAI, openai: OpenAI) -> None:
    """Its text, its reason to end and what it counted, as a worker would have answered."""
    reply = bedrock.chat.completions.with_raw_response.create(**chat())
    answer, own = reply.parse(), openai.chat.completions.create(**chat())
    assert answer.usage is not None

    assert own.choices[0].message.content == answer.choices[0].message.content
    assert ("length", MODEL) == (answer.choices[0].finish_reason, answer.model)
    assert (own.usage.prompt_tokens, 20) == (answer.usage.prompt_tokens, answer.usage.completion_tokens)
    assert "bedrock" == reply.headers["x-warmgate-backend"]


def test_a_stream_is_the_whole_answer_in_pieces(bedrock: OpenAI) -> None:
    """Role first, then the text, the reason to end, and the usage last."""
    whole = bedrock.chat.completions.create(**chat())
    *pieces, last = bedrock.chat.completions.create(**chat(stream=True, stream_options={"include_usage": True}))

    assert whole.choices[0].message.content == "".join(piece.choices[0].delta.content or "" for piece in pieces)
    assert len(pieces) > 2
    assert ("assistant", "length") == (pieces[0].choices[0].delta.role, pieces[-1].choices[0].finish_reason)
    assert ([], whole.usage.prompt_tokens, 20) == (last.choices, last.usage.prompt_tokens, last.usage.completion_tokens)
    assert {MODEL} == {piece.model for piece in pieces}


def test_a_stream_has_no_usage_that_was_not_asked_for(bedrock: OpenAI) -> None:
    chunks = list(bedrock.chat.completions.create(**chat(stream=True)))

    assert [None] * len(chunks) == [chunk.usage for chunk in chunks]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
def test_fields_that_mean_nothing_there_do_not_harm(bedrock: OpenAI, *, streams: bool) -> None:
    """An empty list of tools, a choice among none of them, an effort, and what only the engine knows."""
    loose: dict[str, Any] = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "stop": []}
    more: dict[str, Any] = {"reasoning_effort": "low", "extra_body": {"min_p": 0.1, "ignore_eos": True}}
    reply = bedrock.chat.completions.with_raw_response.create(**chat(stream=streams, **loose, **more))

    assert 200 == reply.http_response.status_code
    assert "ignore_eos,min_p" == reply.headers["x-warmgate-dropped-params"]
    reply.http_response.close()


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
def test_a_stop_text_ends_the_answer(bedrock: OpenAI, *, streams: bool) -> None:
    """Before it, with the reason ``stop``."""
    text = bedrock.chat.completions.create(**chat()).choices[0].message.content
    stop = text[len(text) // 2 :][:4]
    answer = bedrock.chat.completions.create(**chat(stop=stop, stream=streams))
    if streams:
        choices = [chunk.choices[0] for chunk in answer]
        ended = ("".join(choice.delta.content or "" for choice in choices), choices[-1].finish_reason)
    else:
        ended = (answer.choices[0].message.content, answer.choices[0].finish_reason)

    assert (text[: text.index(stop)], "stop") == ended


def test_a_tool_that_is_named_is_called(bedrock: OpenAI) -> None:
    """Under its own name, with an argument that its schema allows."""
    named = {"type": "function", "function": {"name": "weather"}}
    answer = bedrock.chat.completions.create(**chat(tools=[WEATHER_TOOL], tool_choice=named, max_tokens=50))
    (call,) = answer.choices[0].message.tool_calls

    assert "weather" == call.function.name
    assert call.function.arguments.replace(" ", "") in ('{"town":"Paris"}', '{"town":"London"}')


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
def test_a_prompt_without_room_is_refused(bedrock: OpenAI, *, streams: bool) -> None:
    """In vLLM's words, with OpenAI's code: agents compact their history at it."""
    with pytest.raises(BadRequestError, match="maximum context length is 16384 tokens") as caught:
        bedrock.chat.completions.create(**chat(TOO_LONG, stream=streams))

    assert "context_length_exceeded" == caught.value.code


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
def test_a_prompt_without_room_goes_to_the_next_fallback(bedrock: OpenAI, *, streams: bool) -> None:
    short, long = (
        bedrock.chat.completions.with_raw_response.create(**chat(text, stream=streams) | {"model": ROOMY})
        for text in (STORY, TOO_LONG)
    )

    assert [(200, "bedrock"), (200, "openai")] == [
        (reply.http_response.status_code, reply.headers["x-warmgate-backend"]) for reply in (short, long)
    ]
    for reply in (short, long):
        reply.http_response.close()


def test_an_output_limit_beyond_the_context_is_lowered(bedrock: OpenAI) -> None:
    """vLLM refuses one, and names what it takes: the answer comes all the same."""
    text = bedrock.chat.completions.create(**chat()).choices[0].message.content
    answer = bedrock.chat.completions.create(**chat(max_tokens=1_000_000, stop=text[len(text) // 2 :][:4]))

    assert "stop" == answer.choices[0].finish_reason
    assert text.startswith(answer.choices[0].message.content)


def test_a_field_that_is_wrong_is_named(bedrock: OpenAI) -> None:
    with pytest.raises(BadRequestError, match="temperature"):
        bedrock.chat.completions.create(**chat(temperature=-1))

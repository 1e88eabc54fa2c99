"""`/v1/responses` with a real engine, through the OpenAI SDK."""

from typing import Any

import pytest
from openai import NotFoundError, OpenAI

from tests.engine.examples import STORY
from tests.engine.stack import MODEL, WORKER_HEADER

ASKED: dict[str, Any] = {"model": MODEL, "input": STORY, "temperature": 0, "max_output_tokens": 20}


def test_a_response_has_text_and_usage(openai: OpenAI) -> None:
    openai.responses.create(**ASKED)
    response = openai.responses.create(**ASKED)

    assert response.output_text
    assert 20 == response.usage.output_tokens
    assert response.usage.input_tokens_details.cached_tokens > response.usage.input_tokens / 2


def test_a_response_streams(openai: OpenAI) -> None:
    """Its events have numbers in order, and its pieces are the whole."""
    whole = openai.responses.create(**ASKED).output_text
    events = list(openai.responses.create(**ASKED, stream=True))
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]

    assert "response.created" == events[0].type
    assert events[-1].type in ("response.completed", "response.incomplete")
    assert whole == "".join(pieces)
    assert list(range(len(events))) == [event.sequence_number for event in events]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_conversation_goes_on_where_it_is_kept(openai: OpenAI, stream: bool) -> None:
    """Three turns by `previous_response_id`, on one engine, each with all before it in its prompt."""
    last_id, engines, prompt_tokens = None, [], []
    for text in ("Which seats are there?", "And at the window?", "I take that one."):
        arguments = {**ASKED, "input": text, "previous_response_id": last_id, "stream": stream}
        reply = openai.responses.with_raw_response.create(**arguments)
        engines.append(reply.headers[WORKER_HEADER])
        response = list(reply.parse())[-1].response if stream else reply.parse()
        last_id = response.id
        prompt_tokens.append(response.usage.input_tokens)

    assert 1 == len(set(engines))
    assert prompt_tokens[0] < prompt_tokens[1] < prompt_tokens[2]


def test_a_response_is_found_by_its_id(openai: OpenAI) -> None:
    made = [openai.responses.create(**{**ASKED, "input": f"Question {i}"}) for i in range(4)]
    found = [openai.responses.retrieve(response.id) for response in made]

    assert [response.output_text for response in made] == [response.output_text for response in found]


def test_an_unknown_response_is_not_found(openai: OpenAI) -> None:
    """Neither engine has it."""
    with pytest.raises(NotFoundError):
        openai.responses.retrieve("resp_unknown")

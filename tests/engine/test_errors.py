"""What a real engine refuses reaches the caller's SDK with status, class and the engine's words."""

import pytest
from openai import BadRequestError, NotFoundError, OpenAI

from tests.engine.examples import chat
from tests.engine.stack import MODEL, WORKER_HEADER


def test_a_model_that_no_one_has_is_refused_by_the_gateway(openai: OpenAI) -> None:
    """No engine is asked."""
    with pytest.raises(NotFoundError) as reported:
        openai.chat.completions.create(**chat(model="gpt-9"))

    assert "model_not_found" == reported.value.code
    assert WORKER_HEADER not in reported.value.response.headers


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_prompt_that_is_too_long_is_refused_by_the_engine(openai: OpenAI, stream: bool) -> None:
    """A status, also where a stream was asked for; the message says how long it may be."""
    with pytest.raises(BadRequestError, match="16384") as reported:
        openai.chat.completions.create(**chat("seat " * 30_000, stream=stream))

    assert reported.value.response.headers[WORKER_HEADER].startswith("engine-")
    assert reported.value.request_id


def test_a_field_that_is_wrong_is_named(openai: OpenAI) -> None:
    with pytest.raises(BadRequestError, match="temperature"):
        openai.chat.completions.create(**chat(temperature=-1))
    with pytest.raises(BadRequestError, match="max_tokens"):
        openai.chat.completions.create(**chat(max_tokens=1_000_000))


def test_a_text_model_says_that_it_has_no_embeddings(openai: OpenAI) -> None:
    """The engine itself says no more than that there is no such route."""
    with pytest.raises(NotFoundError, match=r"does not serve /v1/embeddings.*has /v1/chat/completions") as reported:
        openai.embeddings.create(model=MODEL, input="seat")

    assert "endpoint_not_supported" == reported.value.code


def test_an_answer_follows_a_refusal(openai: OpenAI) -> None:
    """A refusal is the caller's fault: it closes no worker."""
    for _ in range(10):
        with pytest.raises(BadRequestError):
            openai.chat.completions.create(**chat(temperature=-1))

    assert openai.chat.completions.create(**chat()).choices

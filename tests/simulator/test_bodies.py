import json
from typing import Any

import pytest

from simulator.bodies import BodyReader
from simulator.errors import ApiError
from simulator.tokens import TokenSequence

READER = BodyReader("tiny", context_tokens=100)
HELLO = [{"role": "user", "content": "Hello"}]
THAT = TokenSequence.from_text("that")


def chat(**fields: Any) -> bytes:
    return json.dumps({"model": "tiny", "messages": HELLO} | fields).encode()


def completion(**fields: Any) -> bytes:
    return json.dumps({"model": "tiny", "prompt": "Hello"} | fields).encode()


def test_a_chat_with_defaults() -> None:
    """All that fits unless asked otherwise, not streamed, one choice, end of answer respected."""
    request = READER.chat(chat())

    assert [88] == request.max_tokens
    assert (1, 0, False) == (request.choices_per_prompt, request.min_tokens, request.streams)
    flags = (request.ignore_eos, request.include_usage, request.continuous_usage, request.return_token_ids)
    assert not any(flags)
    assert "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n" == request.prompts[0].text()


def test_both_names_of_the_limit() -> None:
    """max_completion_tokens goes before max_tokens."""
    assert [7] == READER.chat(chat(max_tokens=7)).max_tokens
    assert [8] == READER.chat(chat(max_tokens=7, max_completion_tokens=8)).max_tokens
    assert [16] == READER.completion(completion()).max_tokens


def test_a_limit_of_null_is_all_that_fits() -> None:
    assert [97] == READER.completion(completion(max_tokens=None)).max_tokens
    assert [88] == READER.chat(chat(max_tokens=None)).max_tokens


def test_a_chat_that_goes_on_with_its_last_message() -> None:
    messages = [*HELLO, {"role": "assistant", "content": "bak tol "}]
    request = READER.chat(chat(messages=messages, continue_final_message=True, add_generation_prompt=False))

    assert request.prompts[0].text().endswith("<|im_start|>assistant\nbak tol ")
    with pytest.raises(ApiError, match="Cannot set both `continue_final_message` and `add_generation_prompt` to True"):
        READER.chat(chat(messages=messages, continue_final_message=True))


def test_unknown_fields_and_nulls_are_let_through() -> None:
    request = READER.chat(chat(temperature=0.7, stop=["x"], max_tokens=None, stream=None, vllm_xargs={"a": 1}))

    assert [88] == request.max_tokens


def test_the_model_may_be_left_out() -> None:
    """There is only one."""
    assert 1 == len(READER.completion(b'{"prompt": "Hello"}').prompts)


def test_an_adapter_is_asked_for_like_a_model() -> None:
    """Every other name is unknown."""
    reader = BodyReader("tiny", 100, ["poet"])

    assert [None, "poet"] == [reader.chat(chat(model=model)).adapter for model in ("tiny", "poet")]
    assert ["poet", None] == [reader.completion(completion(model=model)).adapter for model in ("poet", None)]
    assert 12 == len(reader.tokenize(chat(model="poet"))[0])
    with pytest.raises(ApiError, match="The model `other` does not exist"):
        reader.chat(chat(model="other"))


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("that", [THAT.packed]),
        (["that", "this"], [THAT.packed, TokenSequence.from_text("this").packed]),
        ([1, 2], [TokenSequence.from_ids([1, 2]).packed]),
        ([[1], [2, 3]], [TokenSequence.from_ids([1]).packed, TokenSequence.from_ids([2, 3]).packed]),
    ],
)
def test_the_four_forms_of_a_prompt(prompt: Any, expected: list[bytes]) -> None:
    """Text, texts, token ids, lists of token ids."""
    assert expected == [tokens.packed for tokens in READER.completion(completion(prompt=prompt)).prompts]


@pytest.mark.parametrize(
    ("body", "status", "message", "param"),
    [
        (b"{", 400, "the body is not JSON: ", None),
        (b"\xff", 400, "the body is not JSON: ", None),
        (b'{"model": "tiny"}', 400, "missing required field `messages`", None),
        (chat(model="other"), 404, "The model `other` does not exist.", "model"),
        (chat(messages=[]), 400, "messages: must not be empty", "messages"),
        (chat(messages=[{"content": "x"}]), 400, "messages[0].role: must be a string", "messages"),
        (chat(messages=[{"role": "user", "content": 1}]), 400, "messages[0].content: must be", "messages"),
        (
            chat(messages=[{"role": "assistant", "tool_calls": [{"id": "x"}]}]),
            400,
            "messages[0].tool_calls: must be a list of function calls",
            "messages",
        ),
        (chat(messages=[{"role": "assistant", "tool_calls": "x"}]), 400, "messages[0].tool_calls: must", "messages"),
        (chat(max_tokens="a"), 400, "$.max_tokens", None),
        (chat(max_tokens=0), 400, "$.max_tokens", None),
        (chat(n=0), 400, "$.n", None),
        (chat(max_tokens=90), 400, "'max_tokens' is too large: 90.", "max_tokens"),
        (
            chat(messages=[{"role": "user", "content": "e" * 400}]),
            400,
            "length is 100 tokens. However, your request has 109",
            "messages",
        ),
    ],
)
def test_a_bad_chat_is_refused(body: bytes, status: int, message: str, param: str | None) -> None:
    """With the status of vLLM, the field, and what is wrong with it."""
    with pytest.raises(ApiError) as caught:
        READER.chat(body)

    assert (status, param) == (caught.value.status, caught.value.param)
    assert message in caught.value.message


@pytest.mark.parametrize(
    "prompt", ["", [], [""], [[]], 7, None, [1, "a"], ["a", 1], [-1], [225_794], [[1], "a"], [1.5]]
)
def test_a_bad_prompt_is_refused(prompt: Any) -> None:
    """Empty, mixed, or not made of strings or ids of the vocabulary."""
    with pytest.raises(ApiError, match="prompt") as caught:
        READER.completion(completion(prompt=prompt))

    assert (400, "prompt") == (caught.value.status, caught.value.param)


def test_tokenize_takes_text_or_messages() -> None:
    """A chat gives the tokens it would be answered with."""
    text, wants_texts = READER.tokenize(b'{"prompt": "that is ", "return_token_strs": true}')
    assert (2, True) == (len(text), wants_texts)

    tokens, _ = READER.tokenize(chat())
    assert READER.chat(chat()).prompts[0] == tokens


def test_detokenize_takes_ids() -> None:
    assert "Hi" == READER.detokenize(b'{"tokens": [72, 105]}').text()
    with pytest.raises(ApiError, match="tokens"):
        READER.detokenize(b'{"tokens": [225794]}')

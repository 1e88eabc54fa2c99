import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from simulator.rendering import render_chat
from simulator.tokenizer_folder import byte_characters, write_tokenizer
from simulator.tokens import TokenSequence

MARKED_TEXT = st.lists(
    st.sampled_from(["<|im_start|>", "<|im_end|>", "user", "\n", "that ", "Grüße", "<|im_", "\r\n", "é", "日本"])
    | st.text()
).map("".join)

Message = dict[str, Any]
MESSAGES: st.SearchStrategy[list[Message]] = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["system", "user"]), "content": st.text()}, optional={"name": st.text()}
        ),
        st.fixed_dictionaries(
            {"role": st.just("assistant"), "content": st.text()},
            optional={
                "reasoning": st.text(),
                "tool_calls": st.lists(
                    st.fixed_dictionaries(
                        {
                            "id": st.text(),
                            "function": st.fixed_dictionaries(
                                {"name": st.text(), "arguments": st.dictionaries(st.text(), st.integers() | st.text())}
                            ),
                        }
                    )
                ),
            },
        ),
        st.fixed_dictionaries({"role": st.just("tool"), "content": st.text(), "tool_call_id": st.text()}),
    ),
    min_size=1,
)
TOOLS: list[Message] = [
    {"type": "function", "function": {"name": "f", "description": "Größe", "parameters": {"b": 1.5, "a": None}}},
    {"type": "function", "function": {"name": "g", "description": None, "parameters": None}},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("tokenizers") / "made" / "here"
    write_tokenizer(path)
    return path


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def template(folder: Path) -> Any:
    """Return the tokenizer as transformers sets it up."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(json.loads((folder / "tokenizer_config.json").read_text())["chat_template"])


@given(text=MARKED_TEXT)
@settings(max_examples=80, deadline=None)
def test_any_text_has_the_ids_of_the_worker(tokenizer: Tokenizer, text: str) -> None:
    assert list(TokenSequence.from_text(text).ids) == tokenizer.encode(text, add_special_tokens=True).ids


@given(messages=MESSAGES, has_tools=st.booleans(), add_generation_prompt=st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_chat_has_the_text_of_the_worker(
    template: Any, messages: list[Message], has_tools: bool, add_generation_prompt: bool
) -> None:
    """The Jinja template says what the worker renders."""
    tools = TOOLS if has_tools else []
    rendered = template.render(messages=messages, tools=tools or None, add_generation_prompt=add_generation_prompt)

    assert rendered == render_chat(messages, tools=tools, add_generation_prompt=add_generation_prompt)


def test_the_tokens_are_text_again(tokenizer: Tokenizer) -> None:
    text = "<|im_start|>user\nthat is Grün<|im_end|>\n"
    ids = list(TokenSequence.from_text(text).ids)

    assert text == tokenizer.decode(ids, skip_special_tokens=False)
    assert "user\nthat is Grün\n" == tokenizer.decode(ids, skip_special_tokens=True)


def test_the_configuration_names_the_marks(folder: Path) -> None:
    """The end of a message ends an answer, and nothing begins a text."""
    config = json.loads((folder / "tokenizer_config.json").read_text())

    assert ("<|im_end|>", None) == (config["eos_token"], config["bos_token"])
    assert ["225792", "225793"] == sorted(config["added_tokens_decoder"])


def test_bytes_have_the_characters_of_gpt_2() -> None:
    """Visible ones their own; space and newline are known by theirs."""
    characters = byte_characters()

    assert ("a", "ÿ", "Ġ", "Ċ", "Ń") == tuple(characters[byte] for byte in (0x61, 0xFF, 0x20, 0x0A, 0xAD))
    assert 256 == len(set(characters.values()))

"""What is read of a model's folder, and which folders are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken

from gateway.models.tokenizing.exactness import UnusableFolder
from gateway.models.tokenizing.model_folder import ModelFolder, read_model_folder
from tests.gateway.models.tokenizing.examples import IM_END, tiny_tokenizer

CONFIG = {"eos_token": "<|im_end|>", "chat_template": "from the config"}


def folder(tmp_path: Path, *, config: Any = CONFIG, **files: Any) -> Path:
    tiny_tokenizer().save(str(tmp_path / "tokenizer.json"))
    for name, content in {"tokenizer_config": config, **files}.items():
        (tmp_path / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return tmp_path


def read(tmp_path: Path, **files: Any) -> ModelFolder:
    return read_model_folder(folder(tmp_path, **files))


def test_a_folder_has_tokenizer_template_and_special_tokens(tmp_path: Path) -> None:
    """All that prompts are made with."""
    found = read(tmp_path)

    assert IM_END == found.tokenizer.token_to_id("<|im_end|>")
    assert {"default": "from the config"} == found.templates
    assert {"eos_token": "<|im_end|>"} == found.special_tokens


def test_a_special_token_is_a_text_or_an_object(tmp_path: Path) -> None:
    """Null and the empty string are not any."""
    config = {
        "bos_token": {"content": "<|im_start|>", "lstrip": False},
        "pad_token": None,
        "unk_token": "",
        "x_token": "y",
    }

    assert {"bos_token": "<|im_start|>"} == read(tmp_path, config=config).special_tokens


def test_the_older_file_of_special_tokens_counts_where_nothing_newer_does(tmp_path: Path) -> None:
    """Transformers does the same."""
    older = {"eos_token": "<|endoftext|>"}
    newer = {"eos_token": "<|im_end|>", "added_tokens_decoder": {}}

    assert older == read(tmp_path, special_tokens_map=older).special_tokens
    assert {"eos_token": "<|im_end|>"} == read(tmp_path, config=newer, special_tokens_map=older).special_tokens


def test_tokens_that_only_the_config_knows_are_added(tmp_path: Path) -> None:
    """First those with an id, with their flags; then special ones without."""
    config = {
        "added_tokens_decoder": {
            "263": {"content": "<think>", "special": False, "lstrip": True, "normalized": False},
            "262": {"content": "<|im_end|>", "special": True},
        },
        "pad_token": "<|pad|>",
        "additional_special_tokens": ["<|im_start|>", {"content": "<|more|>"}],
    }

    added = read(tmp_path, config=config).tokenizer.get_added_tokens_decoder()

    assert {
        260: "<|endoftext|>",
        261: "<|im_start|>",
        262: "<|im_end|>",
        263: "<think>",
        264: "<|pad|>",
        265: "<|more|>",
    } == {number: token.content for number, token in added.items()}
    assert AddedToken("<think>", lstrip=True, normalized=False, special=False) == added[263]


def test_special_tokens_can_have_names_of_the_models_own(tmp_path: Path) -> None:
    """They are special all the same."""
    config = {"extra_special_tokens": {"image_token": "<|image|>"}}

    assert 263 == read(tmp_path, config=config).tokenizer.token_to_id("<|image|>")


def test_a_template_in_a_file_of_its_own_wins(tmp_path: Path) -> None:
    """With those beside it."""
    (tmp_path / "chat_template.jinja").write_text("from the file")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("for tools")

    assert {"default": "from the file", "tool_use": "for tools"} == read(tmp_path).templates


def test_a_config_can_have_several_templates(tmp_path: Path) -> None:
    """Each has a name."""
    config = {"chat_template": [{"name": "default", "template": "a"}, {"name": "rag", "template": "b"}]}

    assert {"default": "a", "rag": "b"} == read(tmp_path, config=config).templates


def test_a_model_without_chats_has_no_template(tmp_path: Path) -> None:
    """Its texts can be tokenised."""
    assert {} == read(tmp_path, config={}).templates


def test_a_processor_may_have_the_same_template(tmp_path: Path) -> None:
    """Models that see often have it twice."""
    found = read(tmp_path, chat_template={"chat_template": "from the config"})

    assert {"default": "from the config"} == found.templates


@pytest.mark.parametrize(
    ("why", "files"),
    [
        ("no tokenizer_config.json", {"config": None}),
        ("not valid JSON", {"config": "{"}),
        ("not a JSON object", {"config": "[]"}),
        ("auto_map", {"config": {"auto_map": {"AutoTokenizer": ["a.B", None]}}}),
        ("chat_template in", {"config": {"chat_template": 1}}),
        ("chat_template in", {"config": {"chat_template": [{"name": "a"}]}}),
        ("extra_special_tokens", {"config": {"extra_special_tokens": "a"}}),
        ("added_tokens_decoder", {"config": {"added_tokens_decoder": {"a": {"content": "b"}}}}),
        ("added_tokens_decoder", {"config": {"added_tokens_decoder": {"1": {}}}}),
        ("assign token 999 to different texts", {"config": {"added_tokens_decoder": {"999": {"content": "<x>"}}}}),
        ("remove the unused one", {"chat_template": {"chat_template": "another"}}),
        ("cannot be read", {"tokenizer": "{}"}),
        ("cannot be read", {"tokenizer": "{"}),
    ],
)
def test_a_folder_that_is_not_whole_is_refused(tmp_path: Path, why: str, files: dict[str, Any]) -> None:
    """With what is wrong."""
    folder(tmp_path, **files)
    if files.get("config", ()) is None:
        (tmp_path / "tokenizer_config.json").unlink()

    with pytest.raises(UnusableFolder, match=why):
        read_model_folder(tmp_path)


def test_there_must_be_a_tokenizer(tmp_path: Path) -> None:
    """It must do the same each time."""
    with pytest.raises(UnusableFolder, match=r"no tokenizer\.json"):
        read_model_folder(_without(folder(tmp_path), "tokenizer.json"))
    tokenizer = json.loads(tiny_tokenizer().to_str())
    tokenizer["model"]["dropout"] = 0.1
    with pytest.raises(UnusableFolder, match="at random"):
        read(tmp_path, tokenizer=tokenizer)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """The text has its name, not its place."""
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")

    with pytest.raises(UnusableFolder, match=r"^chat_template\.jinja cannot be read"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("why", "config"),
    [
        ("Harmony", {"model_type": "gpt_oss"}),
        ("with custom code", {"architectures": ["DeepseekV32ForCausalLM"]}),
        ("with custom code", {"architectures": ["KimiK3ForConditionalGeneration"]}),
    ],
)
def test_models_that_are_not_served_by_their_template_are_refused(
    tmp_path: Path, why: str, config: dict[str, Any]
) -> None:
    """Their template, if there is one, is not what engines use."""
    folder(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))

    with pytest.raises(UnusableFolder, match=why):
        read_model_folder(tmp_path)


@pytest.mark.parametrize("file", ["tekken.json", "tokenizer.model.v7"])
def test_mistrals_own_tokenizer_is_refused(tmp_path: Path, file: str) -> None:
    """Engines take it where it lies."""
    folder(tmp_path)
    (tmp_path / file).write_text("{}")

    with pytest.raises(UnusableFolder, match="Mistral"):
        read_model_folder(tmp_path)


def _without(tmp_path: Path, name: str) -> Path:
    (tmp_path / name).unlink()
    return tmp_path

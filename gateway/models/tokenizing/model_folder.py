"""Folder of a model, with the files that determine how prompts become tokens.

The files are ``tokenizer.json``, ``tokenizer_config.json``, ``special_tokens_map.json``, ``config.json`` and the chat
templates, read as in transformers 5 (`tokenization_utils_base.py`, _from_pretrained). Models whose engines do not use
these files are refused.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from gateway.models.tokenizing.asked import JsonObject
from gateway.models.tokenizing.exactness import UnusableFolder

_SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_HARMONY = frozenset({"gpt_oss"})
_OWN_RENDERERS = frozenset(
    {
        *("DeepseekV32ForCausalLM", "DeepseekV4ForCausalLM", "DeepseekV4ForConditionalGeneration"),
        *("DeepseekV41ForCausalLM", "InklingForCausalLM", "InklingForConditionalGeneration"),
        *("KimiK3ForConditionalGeneration", "MoonshotKimiaForCausalLM"),
    }
)
"""Architectures that vLLM formats with code instead of a chat template (`vllm/config/model.py`, tokenizer_mode)."""


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """Content of a model's folder that is needed for tokenization."""

    tokenizer: Tokenizer
    templates: Mapping[str, str]
    """Chat templates by name, such as ``default``. The mapping is empty if the model supports no chats."""
    special_tokens: Mapping[str, str]
    """Special tokens by the names that chat templates use."""


def read_model_folder(folder: Path) -> ModelFolder:
    """Read the model's files in *folder*. A large vocabulary of about 10 MB takes a second or two.

    Raises:
        UnusableFolder: if a file is missing or invalid, or if engines of the model do not use these files.
    """
    _refuse_others(folder)
    config = _json(folder / "tokenizer_config.json", needed=True)
    if "AutoTokenizer" in _mapping(config.get("auto_map")):
        raise UnusableFolder("the tokenizer needs custom code (auto_map in tokenizer_config.json)")
    # The older file counts only where the newer way to say it is not used.
    named = config if "added_tokens_decoder" in config else {**config, **_json(folder / "special_tokens_map.json")}
    special_tokens = {name: text for name in _SPECIAL_TOKENS if (text := _token_text(named.get(name))) is not None}
    tokenizer = _tokenizer(folder / "tokenizer.json")
    _add_missing(tokenizer, config, special_tokens.values())
    return ModelFolder(tokenizer, _templates(folder, config), special_tokens)


def _refuse_others(folder: Path) -> None:
    model = _json(folder / "config.json")
    if model.get("model_type") in _HARMONY:
        raise UnusableFolder("the model uses the Harmony format, which has no chat template")
    architectures = model.get("architectures")
    if isinstance(architectures, list) and not _OWN_RENDERERS.isdisjoint(map(str, architectures)):
        raise UnusableFolder("engines format this model's prompts with custom code")
    if any(folder.glob("tekken.json")) or any(folder.glob("tokenizer.model.v*")):
        raise UnusableFolder("engines use Mistral's own tokenizer for this model")


def _tokenizer(path: Path) -> Tokenizer:
    text = _text(path)
    if text is None:
        raise UnusableFolder("there is no tokenizer.json")
    try:
        dropout = _mapping(_mapping(json.loads(text)).get("model")).get("dropout")
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing narrower
        raise UnusableFolder(f"tokenizer.json cannot be read: {error}") from error
    if dropout:
        raise UnusableFolder("the tokenizer skips merges at random (dropout in tokenizer.json)")
    return tokenizer


def _add_missing(tokenizer: Tokenizer, config: JsonObject, special_tokens: Iterable[str]) -> None:
    """Add the tokens that only ``tokenizer_config.json`` has, with the ids in that file or the next free ids."""
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    declared = _mapping(config.get("added_tokens_decoder"))
    for token_id in sorted(declared, key=lambda key: int(key) if key.isdecimal() else -1):
        token = _mapping(declared[token_id])
        content = token.get("content")
        if not isinstance(content, str) or not token_id.isdecimal():
            raise UnusableFolder("added_tokens_decoder in tokenizer_config.json is malformed")
        if content not in known:
            flags = {name: bool(token.get(name)) for name in ("single_word", "lstrip", "rstrip", "normalized")}
            tokenizer.add_tokens([AddedToken(content, special=bool(token.get("special")), **flags)])
        if tokenizer.token_to_id(content) != int(token_id):
            raise UnusableFolder(f"tokenizer.json and tokenizer_config.json assign token {token_id} to different texts")
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    wanted = dict.fromkeys([*special_tokens, *_more_special_tokens(config)])
    missing = [AddedToken(text, special=True, normalized=False) for text in wanted if text not in added]
    tokenizer.add_special_tokens(missing)


def _more_special_tokens(config: JsonObject) -> list[str]:
    """Return the special tokens without a standard name, from a list or from an object with the model's own names."""
    more = config.get("extra_special_tokens") or config.get("additional_special_tokens") or []
    tokens = more.values() if isinstance(more, dict) else more
    if not isinstance(more, dict | list):
        raise UnusableFolder("extra_special_tokens in tokenizer_config.json is malformed")
    return [text for token in tokens if (text := _token_text(token)) is not None]


def _templates(folder: Path, config: JsonObject) -> dict[str, str]:
    """Return the chat templates by name. Template files override ``tokenizer_config.json``."""
    files = {"default": _text(folder / "chat_template.jinja")}
    for path in sorted((folder / "additional_chat_templates").glob("*.jinja")):
        files[path.stem] = _text(path)
    found = {name: text for name, text in files.items() if text is not None}
    templates = found or _configured(config.get("chat_template"))
    processor = _json(folder / "chat_template.json").get("chat_template")
    if processor is not None and [processor] != [*templates.values()]:
        raise UnusableFolder("chat_template.json and the tokenizer have different templates; remove the unused one")
    return templates


def _configured(template: Any) -> dict[str, str]:
    match template:
        case None:
            return {}
        case str():
            return {"default": template}
        case [*named] if all(isinstance(one, dict) for one in named):
            pairs = {one.get("name"): one.get("template") for one in named}
            if all(isinstance(part, str) for pair in pairs.items() for part in pair):
                return pairs
    raise UnusableFolder("chat_template in tokenizer_config.json is malformed")


def _token_text(token: Any) -> str | None:
    """Return the text of a token, which is given as a string or as an object with ``content``."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) and text else None


def _json(path: Path, *, needed: bool = False) -> JsonObject:
    text = _text(path)
    if text is None:
        if needed:
            raise UnusableFolder(f"there is no {path.name}")
        return {}
    try:
        read = json.loads(text)
    except ValueError as error:
        raise UnusableFolder(f"{path.name} is not valid JSON: {error}") from error
    if not isinstance(read, dict):
        raise UnusableFolder(f"{path.name} is not a JSON object")
    return read


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableFolder(f"{path.name} cannot be read: {error}") from error


def _mapping(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}
